-- Picks a free worker ID, raises its fence, stores token and window: one step. The decision is core/pool.ts and core/window.ts.
--
-- token clock window layout host ip pid instance continues reuse poolFirst poolLast pool (its name, '' for the whole layout)
-- workerId? preferred (numbers with blanks between) maxWindow? maxClockSkew? lag beside?
-- process? (which process asks), place (all of it but the process itself), gone, there ("N:fence" of claims of this host whose
-- processes were looked at, and are dead, or alive)
--
-- granted + record rollback? | held + record | foreign workerId use | exhausted freeAt? | look N:fence process … | refused |
-- quarantine until | wrong-type

-- What is read in any case says itself that it is of another type.
expect('zset', 'ids', 'unused', 'foreign', 'prunable', restingName(arg.pool), hostName(arg.pool, arg.host))
expect('stream', 'history')
expect('set', 'pools')
expect('list', 'pid:lease@' .. arg.ip)
if wrongType then
  return wrongType
end

local quarantined = guard()
if quarantined then
  return quarantined
end

local clock, window = tonumber(arg.clock), tonumber(arg.window)
local first, last = tonumber(arg.poolFirst), tonumber(arg.poolLast)
local wanted = tonumber(arg.workerId)

local function inPool(n)
  return n % 1 == 0 and n >= first and n <= last
end

local continues, disposable = arg.continues ~= '0', arg.reuse == 'never'

-- Whatever is wrong with the request is told by core/window.ts, from the same figures.
local longest, skew = maxWindow(), maxClockSkew()
if meta.layout == nil then
  longest, skew = tonumber(arg.maxWindow) or longest, tonumber(arg.maxClockSkew) or skew
end
if
  (meta.layout ~= nil and meta.layout ~= arg.layout)
  or (arg.maxWindow ~= nil and tonumber(arg.maxWindow) ~= longest)
  or (arg.maxClockSkew ~= nil and tonumber(arg.maxClockSkew) ~= skew)
  or not (window % 1 == 0 and window >= 1 and window <= longest)
  or (wanted ~= nil and not inPool(wanted))
  or not (math.abs(clock - now) <= skew)
then
  return { 'refused', 'layout', meta.layout or arg.layout, 'maxWindow', int(longest), 'maxClockSkew', int(skew), 'clock', int(now) }
end

local function sameEra(record)
  return record.era == meta.era
end

local function granted(record, rollback)
  local list = {
    'granted', 'clock', int(now), 'workerId', int(record.workerId), 'fence', int(record.fence),
    'from', int(record.from), 'until', int(record['until']),
  }
  local function add(name, value)
    list[#list + 1], list[#list + 2] = name, value
  end
  if record.recentFrom then
    add('recentFrom', int(record.recentFrom))
    add('recent', record.recent or '')
  end
  if rollback then
    add('rollback', int(rollback))
  end
  return list
end

local repeated = redis.call('HGET', key('token'), arg.token)
if repeated then
  local record = read(tonumber(repeated))
  if record ~= nil and record.token == arg.token and sameEra(record) then
    return granted(record)
  end
end

local function inherits(record)
  return record.clean == '1' and record.recentFrom ~= nil and continues and sameEra(record)
end

-- core/window.ts: isFree.
local function isFree(record)
  if record.pinned ~= nil then
    return false
  end
  if record['until'] <= math.min(clock, now) then
    return true
  end
  if record.clean ~= '1' or not sameEra(record) then
    return false
  end
  return record['until'] <= clock or (inherits(record) and clock >= record.floor)
end

-- core/window.ts: rollbackOf.
local function rollbackOf(record)
  local behind = record.seenClock - clock
  local tolerated = record.host == arg.host and overtaking or skew
  if behind > tolerated then
    return behind
  end
end

-- Somebody who keeps no window takes numbers here, or may: what none of us held all the time may have been used by them.
if arg.beside ~= nil then
  noteBeside()
end
local function noteForeign(n, record)
  noteBeside()
  if record == nil then
    use(n)
  else
    unindex(record)
  end
  redis.call('ZADD', key('foreign'), int(now), n)
end

-- core/window.ts: claimed.
local function grant(n, before, rollback)
  expect('zset', 'history:' .. n)
  expectFiled(before)
  if wrongType then
    return wrongType
  end
  if meta.layout == nil then
    makeNamespace(arg.layout, int(longest), int(skew))
  end
  local old = before and before['until'] or 0
  local from = math.max(old, now - skew, eraBegin())
  local inherited = before ~= nil and inherits(before)
  local ends = math.max(clock, now) + window
  if meta.beside ~= nil and redis.call('EXISTS', key('use:' .. n)) == 0 then
    -- Such a window begins later than usual, and is as long as any other.
    from = math.max(from, now + skew)
    ends = math.max(ends, from + window)
    inherited = false
  end
  local record = {
    workerId = n,
    fence = math.max(before and before.fence or 0, eraBegin()) + 1,
    token = arg.token,
    from = from,
    ['until'] = math.max(old, ends),
    seenClock = clock,
    clean = '0',
    floor = inherited and before.recentFrom or from,
    recentFrom = inherited and before.recentFrom or nil,
    recent = inherited and before.recent or nil,
    continuedFrom = inherited and before.recentFrom or nil,
    host = arg.host,
    ip = arg.ip,
    pid = arg.pid,
    instance = arg.instance,
    process = arg.process,
    claimedAt = now,
    era = meta.era,
    pool = arg.pool,
  }
  write(record, before)
  if before == nil then
    use(n)
  elseif before.fence > 0 then
    if before.ended == nil then
      noteEnd(before, 'taken-over')
      leave(before)
    end
    local id = redis.call('ZREVRANGE', key('history:' .. n), 0, 0)[1]
    if id then
      -- An operator may have reopened the window after it was noted.
      local row = before.ended == 'reset' and redis.call('XRANGE', key('history'), id, id)[1]
      local ended = row and pairsOf(row[2])['until'] or int(old)
      redis.call('ZADD', key('prunable'), ended, id .. ' ' .. n)
    end
  end
  redis.call('HSET', key('token'), arg.token, n)
  redis.call('SET', key('use:' .. n), useOf(record))
  redis.call('RPUSH', key('pid:lease@' .. arg.ip), arg.pid .. 'x' .. n)
  redis.call('SADD', key('pools'), arg.pool)
  redis.call('ZREM', key('foreign'), n)
  return granted(record, rollback or (before and rollbackOf(before)))
end

if wanted ~= nil then
  local record = read(wanted)
  if disposable and record ~= nil and record.fence > 0 then
    return { 'exhausted', 'first', int(wanted), 'last', int(wanted), 'clock', int(now) }
  end
  local foreign = foreignUse(wanted, record)
  if foreign then
    noteForeign(wanted, record)
    return { 'foreign', 'workerId', int(wanted), 'use', foreign, 'clock', int(now) }
  end
  if record == nil or isFree(record) then
    return grant(wanted, record)
  end
  return answer('held', record, info())
end

-- The other pools whose numbers may lie in this one: after a pool was widened, narrowed or moved, some are still filed there.
local otherPools = nil
local function others()
  if otherPools == nil then
    otherPools = {}
    for _, pool in ipairs(redis.call('SMEMBERS', key('pools'))) do
      local a, b = string.match(pool, '^(%d+)-(%d+)$')
      if pool ~= arg.pool and (a == nil or (tonumber(a) <= last and tonumber(b) >= first)) then
        table.insert(otherPools, pool)
      end
    end
  end
  return otherPools
end

-- The first few of an index that lie in the pool, as {worker ID, until}, those of the pool's own index first.
local function oldest(nameOf)
  local function from(pool, limit)
    local found, at, size = {}, 0, limit
    while #found < limit do
      local page = redis.call('ZRANGE', key(nameOf(pool)), at, at + size - 1, 'WITHSCORES')
      for i = 1, #page, 2 do
        if inPool(tonumber(page[i])) and #found < limit then
          table.insert(found, { tonumber(page[i]), tonumber(page[i + 1]) })
        end
      end
      if #page < 2 * size then
        break
      end
      -- The index of another pool, most of which lies elsewhere.
      at, size = at + size, 100
    end
    return found
  end
  local found = from(arg.pool, look)
  if found[1] ~= nil and found[1][2] <= math.min(clock, now) then
    return found
  end
  for _, pool in ipairs(others()) do
    for _, entry in ipairs(from(pool, look)) do
      table.insert(found, entry)
    end
  end
  table.sort(found, function(a, b)
    return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1])
  end)
  return found
end

-- The record with the newest window of this host: has its clock been set back?
local rollback = nil
do
  local newest = nil
  local pools = { arg.pool }
  for _, pool in ipairs(others()) do
    table.insert(pools, pool)
  end
  for _, pool in ipairs(pools) do
    for _, n in ipairs(redis.call('ZREVRANGE', key(hostName(pool, arg.host)), 0, look - 1)) do
      if inPool(tonumber(n)) then
        local record = read(tonumber(n))
        if record ~= nil and (newest == nil or record['until'] > newest['until']) then
          newest = record
        end
        break
      end
    end
  end
  rollback = newest and rollbackOf(newest)
end

local function listed(list, record)
  return string.find(' ' .. (arg[list] or '') .. ' ', ' ' .. int(record.workerId) .. ':' .. int(record.fence) .. ' ', 1, true) ~= nil
end

-- A record that can be had now, and that no foreigner has taken.
local function available(n)
  local record = read(n)
  if record == nil or not isFree(record) then
    return nil
  end
  if foreignUse(n, record) then
    noteForeign(n, record)
    return nil
  end
  return record
end

local stalled = nil
if not disposable then
  for text in string.gmatch(arg.preferred or '', '%d+') do
    local n = tonumber(text)
    if inPool(n) then
      if redis.call('EXISTS', key('window:' .. n)) == 1 then
        local record = available(n)
        if record ~= nil then
          return grant(n, record, rollback)
        end
      elseif foreignUse(n, nil) then
        noteForeign(n, nil)
      else
        return grant(n, nil, rollback)
      end
    end
  end

  local unclear = {}
  for _, entry in ipairs(oldest(function(pool)
    return hostName(pool, arg.host)
  end)) do
    local record = available(entry[1])
    if record ~= nil then
      -- A process of this very place that did not give back: dead, or only cut off, and then it may still renew.
      local here = record.token ~= nil and record.process ~= nil and arg.place ~= nil
        and string.sub(record.process, 1, #arg.place) == arg.place
      if not here or listed('gone', record) then
        return grant(entry[1], record, rollback)
      elseif listed('there', record) then
        stalled = stalled or record
      else
        table.insert(unclear, int(record.workerId) .. ':' .. int(record.fence))
        table.insert(unclear, record.process)
      end
    end
  end
  if #unclear > 0 then
    return { 'look', unpack(unclear) }
  end
end

-- The lowest number that nobody ever used. A foreigner's is set aside the first time it is met.
while true do
  local from, to = rangeAt(first)
  if meta.layout == nil then
    from, to = 0, last
  end
  if from == nil or from > last then
    break
  end
  local n = math.max(from, first)
  if not foreignUse(n, nil) then
    return grant(n, nil, rollback)
  end
  if meta.layout == nil then
    makeNamespace(arg.layout, int(longest), int(skew))
  end
  noteForeign(n, nil)
end
if disposable then
  return { 'exhausted', 'first', int(first), 'last', int(last), 'clock', int(now) }
end

local freeAt = nil
for _ = 1, look do
  local candidates = oldest(restingName)
  local met = false
  freeAt = candidates[1] and candidates[1][2]
  for _, entry in ipairs(candidates) do
    local record = read(entry[1])
    if record ~= nil and not met and isFree(record) and not (stalled ~= nil and record.workerId == stalled.workerId) then
      if foreignUse(entry[1], record) then
        noteForeign(entry[1], record)
        met = true
      else
        return grant(entry[1], record, rollback)
      end
    end
  end
  if not met then
    break
  end
end
if stalled ~= nil then
  return grant(stalled.workerId, stalled, rollback)
end

-- Numbers of foreigners who have left in the meantime, a few at a time.
for _, text in ipairs(redis.call('ZRANGE', key('foreign'), 0, 63)) do
  local n = tonumber(text)
  if inPool(n) then
    local record = read(n)
    if not foreignUse(n, record) and (record == nil or isFree(record)) then
      return grant(n, record, rollback)
    end
  end
  -- Those of other pools go to the end, too, or they would hide the ones behind them.
  redis.call('ZADD', key('foreign'), int(now), n)
end

local list = { 'exhausted', 'first', int(first), 'last', int(last), 'clock', int(now) }
if freeAt ~= nil then
  table.insert(list, 'freeAt')
  table.insert(list, int(freeAt))
end
return list
