-- Picks a free worker ID, raises its fence and stores token and window: `decideClaim` in rule/pool.ts, with the rule of rule/window.ts.
--
-- answers: granted, and without names: clock workerId fence from until rollback recentFrom recent (false: there is none)
--   receipt ('': there is none) | lost reason | held info record | foreign workerId use clock | exhausted first last clock freeAt?
--   | refused info | quarantine until clock era quarantineEnd maxClockSkew namespace | look N:fence process... (say which of these processes of the caller's place are alive)
--   | further part left freeAt? (claim again, with these) | elsewhere databases (their numbers: the caller may mean one of these)
-- include: namespace elsewhere quarantine records marks receipts unused pins foreign

-- KEYS[1]: the prefix of the namespace's keys
local token = ARGV[1] -- made for this claim, as a hash
local clock = tonumber(ARGV[2]) -- the claimer's, Unix ms
local window = tonumber(ARGV[3]) -- its length, ms
local layout = ARGV[4] -- its fingerprint
local host = ARGV[5] -- the claimer's host name
local ip = ARGV[6] -- the claimer's address
local pid = ARGV[7] -- the claimer's process ID
local instance = ARGV[8] -- the claimer's label
local first = tonumber(ARGV[9]) -- the lowest worker ID of the pool
local last = tonumber(ARGV[10]) -- the highest worker ID of the pool
local maxLag = tonumber(ARGV[11]) -- how much longer a quarantine lasts, ms
local reuse = ARGV[12] -- 'never': only a worker ID that was never claimed
local continues = ARGV[13] -- '0': the claimer cannot continue after recents
local lead = tonumber(ARGV[14]) or 0 -- by how much the claimer can lead its clock, ms; '': 0
local process = ARGV[15] -- which process claims (redis/processes.ts); '': unknown
local wanted = tonumber(ARGV[16]) -- the only worker ID that the claim accepts; '': any of the pool
local preferred = ARGV[17] -- worker IDs to try first, separated by spaces
local maxWindow = tonumber(ARGV[18]) -- the limit that the caller expects, ms; '': any
local maxClockSkew = tonumber(ARGV[19]) -- the limit that the caller expects, ms; '': any
local beside = ARGV[20] -- 'westid': programs that keep no window take worker IDs here
local looks = ARGV[21] -- '1': the caller can look at other processes of its place
local gone = ARGV[22] -- claims of this host whose process the caller found dead: N:fence, separated by spaces
local there = ARGV[23] -- claims of this host whose process the caller found alive
local mark = ARGV[24] -- random digits, for an era that begins, or to choose a part of the pool
local id = ARGV[25] -- for a new namespace
local receiptKey = ARGV[26] -- for a new namespace
local recall = ARGV[27] -- the receipt of a claim that the caller remembers; '': there is none
local database = ARGV[28] -- of this connection; '': there are no others
local part = tonumber(ARGV[29]) -- the part of the pool to look at by worker ID; '': the first script of a claim
local left = tonumber(ARGV[30]) -- how many parts to look at, with this one; '' as above
local freeAt = tonumber(ARGV[31]) -- when the first of the worker IDs that earlier scripts looked at becomes free; '': there is none

-- How many worker IDs a claim looks at, the oldest windows first: `look` in rule/pool.ts.
local look = 8
-- How many entries of an index a claim reads at most. Entries of other pools may be between them.
local nearby = 256
-- How many worker IDs of a pool one script reads if the index shows too little, and how many such parts a claim looks at.
local together, mostParts = 1024, 64
-- After what time a claim may find more in other parts, ms.
local again = 200
-- Two requests of one host that overtake each other may differ by this, ms: `overtaking` in rule/window.ts.
local overtaking = 50

local neverUsed = reuse == 'never'
-- The time that both clocks have passed: the server's and the claimer's.
local passed = math.min(clock, now)

local function inPool(n)
  return n ~= nil and n % 1 == 0 and n >= first and n <= last
end

local elsewhere = refusalElsewhere(database)
if elsewhere then
  return elsewhere
end

-- `admitClaim` in rule/verdict.ts. Even if everything else in the claim is wrong, its recall may be right.
local _, isDoubtful = checkQuarantine(maxLag, mark, clock)
local recalled = not isDoubtful and readReceipt(recall)
if recalled and isForgotten(recalled, load(recalled.workerId)) then
  actOnEvidence(recalled, maxLag, mark)
end
if now < meta.opensAt and not isDoubtful then
  return inQuarantine()
end

-- `checkClaim` in rule/window.ts makes the error from the same figures.
local longest, skew = meta.maxWindow, meta.maxClockSkew
if meta.layout == nil then
  longest, skew = maxWindow or usualMaxWindow, maxClockSkew or skew
end
if
  isDoubtful
  or (meta.layout or layout) ~= layout
  or (maxWindow or longest) ~= longest
  or (maxClockSkew or skew) ~= skew
  or not (window % 1 == 0 and window >= 1 and window <= longest)
  or not (wanted == nil or inPool(wanted))
  or not (math.abs(clock - now) <= skew)
then
  return { 'refused', 'layout', meta.layout or layout, 'maxWindow', longest, 'maxClockSkew', skew, 'clock', now }
end

local function sameEra(record)
  return record.era == meta.era
end

local function granted(record, rollback)
  local continued = record.recentFrom
  return {
    'granted', now, record.workerId, record.fence, record.from, record['until'], rollback or false, continued or false,
    continued and record.recent or false, receiptOf(record),
  }
end

local repeated = read('HGET', tokenKey, token)
if repeated then
  local record = load(tonumber(repeated))
  if record ~= nil and record.token == token then
    -- `repeatedAnswer` in rule/pool.ts.
    if not sameEra(record) then
      return lostForgotten()
    end
    if record.turn ~= nil then
      return { 'lost', 'reason', 'cloned' }
    end
    -- The first answer may be missing because the write did not reach the required replicas. On some servers, WAIT looks only at writes of
    -- its own connection. If the first answer still waits for the replicas, and then revokes the grant, this one may stay valid.
    record.repeated = true
    write(record)
    return granted(record)
  end
end

local function inherits(record)
  -- An owner may have used the worker ID without a lease since then.
  return record.owner == nil and record.clean and record.recentFrom ~= nil and continues ~= '0' and sameEra(record)
end

-- `isFree` in rule/window.ts.
local function isFree(record)
  if record.pinned ~= nil and record.owner ~= ip then
    return false
  end
  local isClean = record.clean and sameEra(record)
  return record['until'] <= passed
    or (record.owner ~= nil and (isClean or record.fence == 0))
    or (isClean and (record['until'] <= clock + lead or (inherits(record) and clock >= record.knownFrom)))
end

-- `rollbackOf` in rule/window.ts.
local function rollbackOf(record)
  local behind = record.seenClock - clock
  local tolerated = record.host == host and overtaking or skew
  return behind > tolerated and behind or nil
end

-- Such programs may have used a worker ID at any time without a holder of ours.
if beside == 'westid' then
  noteBeside()
end

-- Records of these worker IDs may have been deleted, and other records, too. A quarantine begins. After it, these worker IDs count as
-- unused.
local function forgotten(from, to)
  addRange(from, to)
  beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark)
  return inQuarantine()
end

-- The first entries of an index that belong to this pool (worker ID, end of its window), the oldest first. The second result is whether
-- there may be more after those of other pools.
local function oldest(key)
  local found, from, size = {}, 0, look
  while from < nearby do
    local page = read('ZRANGE', key, from, from + size - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      local n = tonumber(page[i])
      if inPool(n) then
        table.insert(found, { n, tonumber(page[i + 1]) })
        if #found == look then
          return found, false
        end
      end
    end
    if #page < 2 * size then
      return found, false
    end
    from, size = from + size, nearby - look
  end
  return found, true
end

-- The same for the worker IDs from one worker ID upwards, as many as one script reads: all whose window may have passed. The second result
-- is whether the index lacks some.
local function byNumber(from)
  local found, isLacking, n, to = {}, false, from, math.min(last, from + together - 1)
  -- A released worker ID may be continued before that time by a claimer whose clock is ahead.
  local latest = math.max(clock, now) + math.max(lead, skew)
  while n <= to do
    local unusedFirst, unusedLast = rangeAt(n)
    for each = n, math.min(to, (unusedFirst or highest) - 1) do
      local ends = tonumber(redis.call('ZSCORE', restingKey, each))
      local lacking = ends == nil and not read('ZSCORE', foreignKey, each) and load(each)
      if lacking and lacking.host ~= nil and lacking.pinned == nil then
        ends, isLacking = lacking['until'], true
      end
      if ends ~= nil and ends <= latest then
        table.insert(found, { each, ends })
      elseif ends ~= nil then
        freeAt = math.min(freeAt or highest, ends)
      end
    end
    n = (unusedLast or highest) + 1
  end
  table.sort(found, function(a, b)
    return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1])
  end)
  return found, isLacking
end

-- `claimed` in rule/window.ts. `before`: the record of the worker ID, if it has one.
local function grant(n, before, rollback)
  local useKey, listKey = prefix .. 'use:' .. n, hostList(ip)
  local past = before or { fence = 0, ['until'] = 0, seenClock = 0 }
  local moves = past.host ~= host
  local later = past.fence > 0
  local takenOver = later and past.ended == nil

  expectType('list', listKey)
  expectIndexes(host)
  if before == nil then
    expectType('zset', unusedKey)
  elseif moves then
    expectIndexes(past.host)
  end
  if takenOver and past.ip ~= ip then
    expectType('list', hostList(past.ip))
  end
  if meta.beside then
    expectType('zset', foreignKey)
  end
  local note = later and historyOf(n)
  -- Java processes count up from 0. So a pool that begins above 0 gives nothing back.
  local goBack = {}
  if first == 0 and meta.beside and meta.opensAt <= now - skew then
    local entries, isHidden = oldest(restingKey)
    if isHidden and #entries == 0 then
      entries = byNumber(first)
    end
    goBack = rested(entries, n, skew)
  end

  if meta.layout == nil then
    makeNamespace(layout, longest, skew, id, receiptKey)
  end
  local from = math.max(past['until'], now - skew, meta.opensAt)
  local ends = math.max(clock, now) + window
  local recentFrom = inherits(past) and past.recentFrom or nil
  if past.owner ~= nil or meta.beside and redis.call('EXISTS', useKey) == 0 then
    -- Such a window begins later than usual, has the usual length, and continues nothing.
    from = math.max(from, now + skew)
    ends = math.max(ends, now + skew + window)
    recentFrom = nil
  end
  local record = {
    workerId = n,
    fence = math.max(past.fence, meta.opensAt) + 1,
    token = token,
    from = from,
    ['until'] = math.max(past['until'], ends),
    seenClock = clock,
    clean = false,
    knownFrom = recentFrom or from,
    recentFrom = recentFrom,
    recent = recentFrom and past.recent,
    continuedFrom = recentFrom,
    host = host,
    ip = ip,
    pid = pid,
    instance = instance,
    process = process ~= '' and process or nil,
    claimedAt = now,
    era = meta.era,
    pinned = past.pinned,
    owner = past.owner,
  }
  keepUnknown(record, past)
  write(record)
  if before == nil then
    use(n)
  elseif moves then
    unindex(past)
  end
  index(record)
  if later then
    local _, text = load(n)
    if takenOver then
      leaveHostList(past)
      past.ended, past.releasedAt = 'taken-over', now
      text = packRecord(past)
    end
    note(past, text)
  end
  if past.token ~= nil then
    redis.call('HDEL', tokenKey, past.token)
  end
  redis.call('HSET', tokenKey, token, n)
  redis.call('SET', useKey, useOf(record))
  redis.call('RPUSH', listKey, pid .. 'x' .. n)
  if meta.beside then
    redis.call('ZREM', foreignKey, n)
  end
  giveBack(goBack)
  return granted(record, rollback or rollbackOf(past))
end

if wanted ~= nil then
  local record = load(wanted)
  if neverUsed and record ~= nil and record.fence > 0 then
    return { 'exhausted', 'first', wanted, 'last', wanted, 'clock', now }
  end
  local foreign = foreignUse(wanted, record)
  if foreign then
    -- If the window has not passed, the worker ID must not look as if only another program had it.
    if record == nil or isFree(record) then
      noteForeign(wanted, record)
    else
      noteBeside()
    end
    return { 'foreign', 'workerId', wanted, 'use', foreign, 'clock', now }
  end
  if record == nil and not isNew(wanted) then
    return forgotten(wanted, wanted)
  end
  if record == nil or isFree(record) then
    return grant(wanted, record)
  end
  return listed({ 'held', info() }, record)
end

-- The record with the newest window of this host, which shows whether the host's clock was set back.
local function newestOfHost()
  -- This is not the last entry only if the host leases from several pools.
  for from = 0, 1 do
    for _, text in ipairs(read('ZREVRANGE', hostKey(host), from, from * nearby)) do
      local n = tonumber(text)
      if inPool(n) then
        return load(n)
      end
    end
  end
end

local ofHost = oldest(hostKey(host))
local newest = ofHost[1] and newestOfHost()
local rollback = newest and rollbackOf(newest)

-- Whether `gone` or `there` names the claim of a record.
local function isNamed(list, record)
  return string.find(' ' .. list .. ' ', ' ' .. record.workerId .. ':' .. record.fence .. ' ', 1, true) ~= nil
end

-- The record of a worker ID that can be granted now, or nil.
local function available(n)
  local record = load(n)
  if record ~= nil and isFree(record) then
    if not foreignUse(n, record) then
      return record
    end
    noteForeign(n, record)
  end
end

local stalled = nil
if not neverUsed then
  for text in string.gmatch(pinsOf(ip) or '', '%d+') do
    local n = tonumber(text)
    local record = inPool(n) and available(n)
    if record then
      return grant(n, record, rollback)
    end
  end
  for text in string.gmatch(preferred, '%d+') do
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
        return forgotten(n, n)
      else
        return grant(n, nil, rollback)
      end
    end
  end

  local own = looks == '1' and string.match(process, '^(.*/)%d+/%d+$') or nil
  local unclear = {}
  for _, entry in ipairs(ofHost) do
    local n = entry[1]
    local record = available(n)
    if record ~= nil then
      -- A process of the caller's place that did not release is either dead, or only cut off. If it is cut off, it may still renew.
      local here = record.token and record.process and own and string.sub(record.process, 1, #own) == own
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

-- The last range has no end, so `unused` is empty only if its key was deleted. Then records may also have been deleted.
if meta.layout ~= nil and rangeAt(0) == nil then
  return forgotten(0, highest)
end

-- The lowest worker ID that was never used. When a claim first meets a worker ID of another program, it files it as foreign.
while true do
  local from = meta.layout == nil and 0 or rangeAt(first)
  if from == nil or from > last then
    break
  end
  local n = math.max(from, first)
  local record = load(n)
  if record == nil and not foreignUse(n, nil) then
    return grant(n, nil, rollback)
  end
  if meta.layout == nil then
    makeNamespace(layout, longest, skew, id, receiptKey)
  end
  if record == nil then
    noteForeign(n, nil)
  else
    use(n)
  end
end
if neverUsed then
  return { 'exhausted', 'first', first, 'last', last, 'clock', now }
end

-- Grants the first of these that is free. Nil if none is free. The second result is whether it removed others from the index.
local function firstFree(entries)
  local met, looked = false, 0
  for _, entry in ipairs(entries) do
    local n = entry[1]
    local record = looked < look and load(n) or nil
    if record ~= nil and record ~= stalled and isFree(record) then
      if not foreignUse(n, record) then
        return grant(n, record, rollback)
      end
      noteForeign(n, record)
      met = true
    elseif record ~= nil then
      looked = looked + 1
      freeAt = math.min(freeAt or highest, record['until'])
    elseif looked < look then
      -- Its record was deleted manually.
      redis.call('ZREM', restingKey, n)
      met = true
    end
  end
  return nil, met
end

-- The worker ID whose window ended longest ago.
local answer, entries, isHidden, met = nil, {}, false, false
for _ = 1, part == nil and look or 0 do
  entries, isHidden = oldest(restingKey)
  answer, met = firstFree(entries)
  if not met then
    break
  end
end

-- Entries of other pools hide some worker IDs. Or the index lacks some, because they are pinned or foreign, or because it was deleted
-- manually.
local size = last - first + 1
if not answer and (part ~= nil or isHidden or #entries < math.min(look, size) or read('ZCARD', restingKey) < size) then
  local parts = math.ceil(size / together)
  part = part or math.floor(tonumber(string.sub(mark, 1, 8), 16) / 2 ^ 32 * parts)
  local ofPart, isLacking = byNumber(first + part * together)
  answer = firstFree(ofPart)
  if left == nil then
    local goesOn = isHidden or isLacking
    left, met = goesOn and math.min(parts, mostParts) or 1, met or (goesOn and parts > mostParts)
  end
  part, left = (part + 1) % parts, left - 1
end
if answer then
  return answer
end
if met then
  freeAt = math.min(freeAt or highest, now + again)
end
if left ~= nil and left > 0 then
  -- Between two such scripts, the server serves other clients.
  return listed({ 'further', 'part', part, 'left', left }, { freeAt = freeAt })
end
if stalled ~= nil then
  return grant(stalled.workerId, stalled, rollback)
end

-- Worker IDs that other programs have left, a few in each claim.
if meta.beside then
  for _, text in ipairs(read('ZRANGE', foreignKey, 0, 63)) do
    local n = tonumber(text)
    if inPool(n) then
      local record = load(n)
      if not foreignUse(n, record) and (record == nil or isFree(record)) then
        return grant(n, record, rollback)
      end
    end
    -- Worker IDs of other pools also move to the end. Otherwise they would hide the rest.
    redis.call('ZADD', foreignKey, now, text)
  end
end

return listed({ 'exhausted', 'first', first, 'last', last, 'clock', now }, { freeAt = freeAt })
