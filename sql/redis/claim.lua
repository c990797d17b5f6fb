local token, clock, window, layout, host, ip, pid, instance, pool, first, last, lag, reuse, continues, lead,
  process, wanted, preferred, maxWindow, maxClockSkew, beside, looks, gone, there = unpack(ARGV)

-- Picks a free worker ID, raises its fence, stores token and window: one step. The decision is rule/pool.ts and rule/window.ts.
--
-- pool: first-last, or '*' for the whole layout. preferred: numbers with blanks between. process: which process asks, '' where that
-- cannot be told. looks: '1' where it can look at others of its place (all of `process` but pid and start). gone, there: "N:fence"
-- of claims of this host whose processes it looked at, with blanks between: dead, or alive.
--
-- granted clock workerId fence from until rollback recentFrom recent (nil where there is none) | held + record |
-- foreign + workerId use | exhausted + first last freeAt? | unfiled (ask again: there is more to look at) | look + N:fence process … | refused + | quarantine + until

clock, window, first, last, wanted = tonumber(clock), tonumber(window), tonumber(first), tonumber(last), tonumber(wanted)
lead = tonumber(lead) or 0
local disposable = reuse == 'never'
-- The registry's clock and the claimer's: what both have passed.
local passed = math.min(clock, now)

local function inPool(n)
  return n % 1 == 0 and n >= first and n <= last
end

-- Whatever is wrong with the request is told by rule/window.ts, from the same figures.
local longest, skew = meta.maxWindow, meta.maxClockSkew
maxWindow, maxClockSkew = tonumber(maxWindow), tonumber(maxClockSkew)
if meta.layout == nil then
  longest, skew = maxWindow or longest, maxClockSkew or skew
end
if
  (meta.layout or layout) ~= layout
  or (maxWindow or longest) ~= longest
  or (maxClockSkew or skew) ~= skew
  or not (window % 1 == 0 and window >= 1 and window <= longest)
  or not (wanted == nil or inPool(wanted))
  or not (math.abs(clock - now) <= skew)
then
  return { 'refused', 'layout', meta.layout or layout, 'maxWindow', longest, 'maxClockSkew', skew, 'clock', now }
end

local quarantined = guard(lag)
if quarantined then
  return quarantined
end

local function sameEra(record)
  return record.era == meta.era
end

local function granted(record, rollback)
  local continued = record.recentFrom
  return {
    'granted', now, record.workerId, record.fence, record.from, record['until'], rollback or false,
    continued or false, continued and record.recent or false,
  }
end

local repeated = read(tokenKey, redis.pcall('HGET', tokenKey, token))
if repeated then
  local record = load(tonumber(repeated))
  if record ~= nil and record.token == token and sameEra(record) then
    return granted(record)
  end
end

local function inherits(record)
  -- An owner may have used the number without a lease since.
  return record.owner == nil and record.clean and record.recentFrom ~= nil and continues ~= '0' and sameEra(record)
end

-- rule/window.ts: isFree.
local function isFree(record)
  if record.pinned ~= nil and record.owner ~= ip then
    return false
  end
  if record.owner ~= nil and ((record.clean and sameEra(record)) or record.fence == 0) then
    return true
  end
  if record['until'] <= passed then
    return true
  end
  if not record.clean or not sameEra(record) then
    return false
  end
  return record['until'] <= clock + lead or (inherits(record) and clock >= record.floor)
end

-- rule/window.ts: rollbackOf.
local function rollbackOf(record)
  local behind = record.seenClock - clock
  local tolerated = record.host == host and overtaking or skew
  if behind > tolerated then
    return behind
  end
end

-- Somebody who keeps no window takes numbers here, or may: what none of us held all the time may have been used by them.
if beside == 'westid' then
  noteBeside()
end
local foreignKey = prefix .. 'foreign'

-- Whether none of us ever used a number that has no record. Where one did, the record was deleted, and a window with it.
local function isNew(n)
  local from = rangeAt(n)
  return meta.layout == nil or (from ~= nil and from <= n) or read(foreignKey, redis.pcall('ZSCORE', foreignKey, n))
end

-- Whoever deleted one record may have deleted others. After the quarantine the number is as good as unused.
local function forgotten(n)
  addRange(n, n)
  beginQuarantine(redis.call('INFO', 'replication'), lag)
  return inQuarantine()
end

local function noteForeign(n, record)
  expect('zset', foreignKey)
  if record == nil then
    if not isNew(n) then
      noteBeside()
      return
    end
    use(n)
  else
    expectFiled(record)
    unindex(record)
  end
  noteBeside()
  redis.call('ZADD', foreignKey, now, n)
end

-- Which numbers are filed under which name: registries/bands.ts. In `meta`, `first:last:name:filed` with blanks between. The name '*' is that
-- of a band that was made for the whole layout.
local bands, bandsChanged = {}, false
for a, b, name, filed in string.gmatch(meta.bands, '(%d+):(%d+):(%S-):(%d+)') do
  table.insert(bands, { first = tonumber(a), last = tonumber(b), name = name, filed = tonumber(filed) })
end

local function writeBands()
  if bandsChanged then
    local list = {}
    for i, band in ipairs(bands) do
      list[i] = string.format('%.0f:%.0f:%s:%.0f', band.first, band.last, band.name, band.filed)
    end
    redis.call('HSET', metaKey, 'bands', table.concat(list, ' '))
    bandsChanged = false
  end
end

local function bandAt(n)
  for _, band in ipairs(bands) do
    if n >= band.first and n <= band.last then
      return band
    end
  end
end

-- The bands of this pool, once they are cut at its limits: cutBands.
local function cutBands()
  local cut = {}
  for _, band in ipairs(bands) do
    local begins = { band.first }
    for _, at in ipairs({ first, last + 1 }) do
      if at > band.first and at <= band.last then
        table.insert(begins, at)
      end
    end
    for i, a in ipairs(begins) do
      local b = (begins[i + 1] or band.last + 1) - 1
      table.insert(cut, { first = a, last = b, name = band.name, filed = math.min(math.max(band.filed, a), b + 1) })
    end
    bandsChanged = bandsChanged or #begins > 1
  end
  local inside, outside = {}, {}
  for _, band in ipairs(cut) do
    table.insert(band.first >= first and band.last <= last and inside or outside, band)
  end
  local function named(a, b)
    bandsChanged = true
    local name = string.format('%.0f-%.0f', a, b)
    return a == first and b == last and pool or name
  end
  -- Whether records of the other band may be filed under this one's name.
  local function isMixed(band, other)
    if band.name == other.name then
      return true
    end
    local a, b = string.match(band.name, '^(%d+)-(%d+)$')
    return other.filed <= other.last and (a == nil or (tonumber(a) <= other.first and tonumber(b) >= other.last))
  end
  for _, band in ipairs(inside) do
    for _, other in ipairs(outside) do
      if isMixed(band, other) then
        band.name, band.filed = named(band.first, band.last), band.first
        break
      end
    end
  end
  -- Numbers of the pool that are in no band: they have no records.
  local at, filled = first, {}
  for i = 1, #inside + 1 do
    local band = inside[i] or { first = last + 1 }
    if band.first > at then
      table.insert(filled, { first = at, last = band.first - 1, name = named(at, band.first - 1), filed = band.first })
    end
    if inside[i] ~= nil then
      table.insert(filled, band)
      at = band.last + 1
    end
  end
  bands = {}
  for _, list in ipairs({ outside, filled }) do
    for _, band in ipairs(list) do
      table.insert(bands, band)
    end
  end
  table.sort(bands, function(a, b)
    return a.first < b.first
  end)
  return filled
end
-- A claim of one number cuts nothing, where that is in a band.
local inside = {}
if wanted == nil or bandAt(wanted) == nil then
  inside = cutBands()
else
  for _, band in ipairs(bands) do
    if band.first >= first and band.last <= last then
      table.insert(inside, band)
    end
  end
end

-- What of ours goes back to those who keep no window: the numbers that have rested longest, a few a claim, once no clock can show a
-- time in their windows. They begin at 0: a pool that begins above it is a band of our own, and nothing of it goes back.
local few = 4
local filedAtOnce = 128
local function resting(n)
  local list, latest = {}, now - skew
  if not meta.beside or first > 0 or meta.quarantine > latest then
    return list
  end
  for _, band in ipairs(inside) do
    local key = restingKey(band.name)
    for _, text in ipairs(read(key, redis.pcall('ZRANGEBYSCORE', key, '-inf', latest, 'LIMIT', 0, few + 1))) do
      local record = load(tonumber(text))
      if record ~= nil and record.workerId ~= n and record['until'] <= latest and #list < few then
        expectFiled(record)
        local _, own = foreignUse(record.workerId, record)
        table.insert(list, { record = record, own = own })
      end
    end
  end
  return list
end

-- The record stays, and its window with it. Whatever stands at its key from here on is somebody else's, even if it looks the same.
local function giveBack(list)
  for _, each in ipairs(list) do
    local record = each.record
    if each.own then
      record.vacated = true
      write(record)
    end
    unindex(record)
    redis.call('ZADD', foreignKey, now, record.workerId)
    if each.own then
      redis.call('DEL', prefix .. 'use:' .. record.workerId)
    end
  end
end

-- rule/window.ts: claimed.
local function grant(n, before, rollback)
  local useKey, listKey = prefix .. 'use:' .. n, hostList(ip)
  -- A record stays in its band.
  local name = before and before.pool or bandAt(n).name
  local moves = before == nil or before.pool == nil or before.host ~= host
  local later = before ~= nil and before.fence > 0
  local takenOver = later and before.ended == nil

  expect('list', listKey)
  expect('zset', restingKey(name))
  expect('zset', hostKey(name, host))
  if before == nil then
    expect('zset', unusedKey)
  elseif moves then
    expectFiled(before)
  end
  if takenOver and before.ip ~= ip then
    expect('list', hostList(before.ip))
  end
  if meta.beside then
    expect('zset', foreignKey)
  end
  local note = later and historyOf(n)
  local goBack = resting(n)

  if meta.layout == nil then
    makeNamespace(layout, longest, skew)
  end
  local old = before and before['until'] or 0
  local from = math.max(old, now - skew, meta.quarantine)
  local inherited = before ~= nil and inherits(before)
  local ends = math.max(clock, now) + window
  if before ~= nil and before.owner ~= nil or meta.beside and redis.call('EXISTS', useKey) == 0 then
    -- Such a window begins later than usual, and is as long as any other.
    from = math.max(from, now + skew)
    ends = math.max(ends, now + skew + window)
    inherited = false
  end
  local record = {
    workerId = n,
    fence = math.max(before and before.fence or 0, meta.quarantine) + 1,
    token = token,
    from = from,
    ['until'] = math.max(old, ends),
    seenClock = clock,
    clean = false,
    floor = inherited and before.recentFrom or from,
    recentFrom = inherited and before.recentFrom or nil,
    recent = inherited and before.recent or nil,
    continuedFrom = inherited and before.recentFrom or nil,
    host = host,
    ip = ip,
    pid = pid,
    instance = instance,
    process = process ~= '' and process or nil,
    claimedAt = now,
    era = meta.era,
    pool = name,
    pinned = before and before.pinned or nil,
    owner = before and before.owner or nil,
  }
  write(record)
  if before == nil then
    use(n)
  elseif moves then
    unindex(before)
  end
  index(record)
  if later then
    local _, text = load(n)
    if takenOver then
      leave(before)
      before.ended, before.releasedAt = 'taken-over', now
      text = packed(before)
    end
    note(before, text)
  end
  if before ~= nil and before.token ~= nil then
    redis.call('HDEL', tokenKey, before.token)
  end
  redis.call('HSET', tokenKey, token, n)
  redis.call('SET', useKey, useOf(record))
  redis.call('RPUSH', listKey, pid .. 'x' .. n)
  writeBands()
  if meta.beside then
    redis.call('ZREM', foreignKey, n)
  end
  giveBack(goBack)
  return granted(record, rollback or (before and rollbackOf(before)))
end

if wanted ~= nil then
  local record = load(wanted)
  if disposable and record ~= nil and record.fence > 0 then
    return { 'exhausted', 'first', wanted, 'last', wanted, 'clock', now }
  end
  local foreign = foreignUse(wanted, record)
  if foreign then
    noteForeign(wanted, record)
    return { 'foreign', 'workerId', wanted, 'use', foreign, 'clock', now }
  end
  if record == nil and not isNew(wanted) then
    return forgotten(wanted)
  end
  if record == nil or isFree(record) then
    return grant(wanted, record)
  end
  return listed({ 'held', info() }, record)
end

-- Whether a record lies under another name than that of its band, and can be filed there.
local function isMisfiled(record, name)
  if record == nil or record.pool == nil or record.pool == name then
    return false
  end
  expectFiled(record)
  expect('zset', restingKey(name))
  expect('zset', hostKey(name, record.host))
  return true
end

-- Files a record under the name of its band.
local function file(record, name)
  local before = { workerId = record.workerId, pool = record.pool, host = record.host }
  -- One that is pinned or foreign is in no index.
  local isIndexed = redis.call('ZSCORE', restingKey(record.pool), record.workerId)
  record.pool = name
  write(record)
  unindex(before)
  if isIndexed then
    index(record)
  end
end

-- Some of the records that are not where they belong are filed there: a few with each claim. Returns whether there are more.
local function fileSome()
  local band = nil
  for _, each in ipairs(inside) do
    if each.filed <= each.last then
      band = each
      break
    end
  end
  if band == nil then
    return false
  end
  -- All are looked at before the first is written: what is wrong with one of them leaves all where they are.
  local n, looked, misfiled = band.filed, 0, {}
  while n <= band.last and looked < filedAtOnce do
    local record = load(n)
    if isMisfiled(record, band.name) then
      table.insert(misfiled, record)
    end
    if record ~= nil then
      n = n + 1
    else
      local from, to = rangeAt(n)
      n = from ~= nil and from <= n and to + 1 or n + 1
    end
    looked = looked + 1
  end
  for _, record in ipairs(misfiled) do
    file(record, band.name)
  end
  band.filed = math.min(n, band.last + 1)
  bandsChanged = true
  writeBands()
  return band.filed <= band.last or band ~= inside[#inside]
end
local unfiled = fileSome()

-- The names of the bands of the pool, each once.
local names = {}
do
  local seen = {}
  for _, band in ipairs(inside) do
    if not seen[band.name] then
      seen[band.name] = true
      table.insert(names, band.name)
    end
  end
end

-- The first few of the indexes, the oldest window first, as worker IDs.
local function oldest(keyOf)
  local found = {}
  for _, name in ipairs(names) do
    local key = keyOf(name)
    local page = read(key, redis.pcall('ZRANGE', key, 0, look - 1, 'WITHSCORES'))
    for i = 1, #page, 2 do
      if inPool(tonumber(page[i])) then
        table.insert(found, { tonumber(page[i]), tonumber(page[i + 1]) })
      end
    end
  end
  if #names > 1 then
    table.sort(found, function(a, b)
      return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1])
    end)
  end
  for i, entry in ipairs(found) do
    found[i] = entry[1]
  end
  return found
end

local ofHost = oldest(function(name)
  return hostKey(name, host)
end)

-- The record with the newest window of this host: has its clock been set back?
local newest = nil
if #names == 1 and #ofHost < look then
  newest = ofHost[1] and load(ofHost[#ofHost])
else
  for _, name in ipairs(names) do
    local key = hostKey(name, host)
    local text = read(key, redis.pcall('ZREVRANGE', key, 0, 0))[1]
    local record = text and inPool(tonumber(text)) and load(tonumber(text))
    if record and (newest == nil or record['until'] > newest['until']) then
      newest = record
    end
  end
end
local rollback = newest and rollbackOf(newest)

local function isNamed(list, record)
  return string.find(' ' .. (list or '') .. ' ', ' ' .. record.workerId .. ':' .. record.fence .. ' ', 1, true) ~= nil
end

-- A record that can be had now, and that no foreigner has taken.
local function available(n)
  local record = load(n)
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
  for text in string.gmatch(pinsOf(ip) or '', '%d+') do
    local n = tonumber(text)
    local record = inPool(n) and available(n)
    if record then
      return grant(n, record, rollback)
    end
  end
  for text in string.gmatch(preferred or '', '%d+') do
    local n = tonumber(text)
    if inPool(n) then
      if load(n) ~= nil then
        local record = available(n)
        if record ~= nil then
          return grant(n, record, rollback)
        end
      elseif foreignUse(n, nil) then
        noteForeign(n, nil)
      elseif not isNew(n) then
        return forgotten(n)
      else
        return grant(n, nil, rollback)
      end
    end
  end

  local place = looks == '1' and string.match(process, '^(.*/)%d+/%d+$') or nil
  local unclear = {}
  for _, n in ipairs(ofHost) do
    local record = available(n)
    if record ~= nil then
      -- A process of this very place that did not give back: dead, or only cut off, and then it may still renew.
      local here = record.token and record.process and place and string.sub(record.process, 1, #place) == place
      if not here or isNamed(gone, record) then
        return grant(n, record, rollback)
      elseif isNamed(there, record) then
        stalled = stalled or record
      else
        table.insert(unclear, n .. ':' .. record.fence)
        table.insert(unclear, record.process)
      end
    end
  end
  if #unclear > 0 then
    return { 'look', unpack(unclear) }
  end
end

-- The last range has no end, so that without any range `unused` was deleted. Whoever did that may have deleted records, too.
if meta.layout ~= nil and rangeAt(0) == nil then
  addRange(0, highest)
  beginQuarantine(redis.call('INFO', 'replication'), lag)
  return inQuarantine()
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
  local record = load(n)
  if record == nil and not foreignUse(n, nil) then
    return grant(n, nil, rollback)
  end
  if meta.layout == nil then
    makeNamespace(layout, longest, skew)
  end
  if record == nil then
    noteForeign(n, nil)
  else
    use(n)
  end
end
if disposable then
  return { 'exhausted', 'first', first, 'last', last, 'clock', now }
end

local freeAt = nil
for _ = 1, look do
  local candidates = oldest(restingKey)
  local met = false
  local soonest = candidates[1] and load(candidates[1])
  freeAt = soonest and soonest['until']
  for _, n in ipairs(candidates) do
    local record = load(n)
    if record ~= nil and not met and isFree(record) and record ~= stalled then
      if foreignUse(n, record) then
        noteForeign(n, record)
        met = true
      else
        return grant(n, record, rollback)
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

if unfiled then
  return { 'unfiled' }
end

-- Numbers of foreigners who have left in the meantime, a few at a time.
if meta.beside then
  for _, text in ipairs(read(foreignKey, redis.pcall('ZRANGE', foreignKey, 0, 63))) do
    local n = tonumber(text)
    if inPool(n) then
      local record = load(n)
      if not foreignUse(n, record) and (record == nil or isFree(record)) then
        return grant(n, record, rollback)
      end
    end
    -- Those of other pools go to the end, too, or they would hide the ones behind them.
    redis.call('ZADD', foreignKey, now, n)
  end
end

-- The indexes lack numbers of this pool: those that are pinned or foreign, or all whose index was deleted by hand. A part of the pool is
-- looked through, and filed again; the next claim goes on behind it. `+`: since the pool's begin some were found.
local indexed = 0
for _, name in ipairs(names) do
  indexed = indexed + read(restingKey(name), redis.pcall('ZCARD', restingKey(name)))
end
if indexed <= last - first then
  local place = 'sweep:' .. pool
  local begin, found = string.match(redis.call('HGET', metaKey, place) or '', '^(%d+)(%+?)$')
  begin = tonumber(begin)
  if begin == nil or not inPool(begin) then
    begin, found = first, ''
  end
  local ends = math.min(last, begin + sweep - 1)
  for n = begin, ends do
    local record = load(n)
    if isMisfiled(record, bandAt(n).name) then
      file(record, bandAt(n).name)
    end
    local filed = record ~= nil and record.pool ~= nil and restingKey(record.pool)
    if filed and record.pinned == nil and not read(filed, redis.pcall('ZSCORE', filed, n)) then
      found = '+'
      if available(n) ~= nil then
        redis.call('HSET', metaKey, place, begin .. found)
        return grant(n, record, rollback)
      end
      expectFiled(record)
      index(record)
      freeAt = math.min(freeAt or highest, record['until'])
    end
  end
  redis.call('HSET', metaKey, place, ends < last and ends + 1 .. found or first)
  if found ~= '' and ends < last then
    -- What lies behind it may be free.
    freeAt = now
  end
end

local list = { 'exhausted', 'first', first, 'last', last, 'clock', now }
if freeAt ~= nil then
  table.insert(list, 'freeAt')
  table.insert(list, freeAt)
end
return list
