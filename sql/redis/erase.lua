-- Deletes a part of a namespace that is sealed: the lowest worker IDs, and once there are none, keys that no record
-- names any more. Behind the last of them it deletes what is fixed for the namespace, and notes its era: `removedEra`
-- in rule/removal.ts.
--
-- The deleted worker IDs are unused again, in one range that begins at 0. So the script knows where to go on, and finds a worker ID that
-- was pinned meanwhile. No claim gets one, because the namespace stays sealed.
--
-- answers: more next (the cursor to go on at) | removed | absent | opened info (it is not as it was sealed)
-- include: namespace quarantine records marks unused pins

-- KEYS[1]: the prefix of the namespace's keys
local cursor = ARGV[1] -- where to go on among the server's keys; '0': at the beginning
local limit = tonumber(ARGV[2]) -- how many worker IDs at most
local forget = ARGV[3] -- '1': no note stays
local maxLag = tonumber(ARGV[4]) -- how much longer a quarantine lasts, ms
local mark = ARGV[5] -- random digits for an era that begins
local id = ARGV[6] -- of the removed namespace

-- How many claims of the history are deleted at once. Other clients wait meanwhile.
local mostClaims = 5000
local prunable = prefix .. 'prunable'

-- A later namespace of the same name is another one.
if meta.layout == nil or (meta.id or '') ~= id then
  return { 'absent' }
end
-- If this server may have forgotten windows, an era begins that lasts long enough for them, and is sealed, too.
checkQuarantine(maxLag, mark)
if meta.opensAt ~= neverOpens then
  return { 'opened', info() }
end

local function historyKey(n)
  return prefix .. 'history:' .. n
end

-- The worker IDs to delete now. Then how many unused ranges are between and after them, and the first worker ID above all these. Then how
-- many claims of that worker ID to delete, if its history is too long to be deleted at once.
local function lowest()
  local found, below, n, left = {}, 0, 0, mostClaims
  local ranges = read('ZRANGEBYSCORE', unusedKey, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, limit + 1)
  for i = 1, #ranges, 2 do
    local first, last = tonumber(ranges[i]), tonumber(ranges[i + 1])
    while n < first and #found < limit do
      local claims = read('ZCARD', historyKey(n))
      if claims > left then
        return found, below, n, left
      end
      table.insert(found, n)
      n, left = n + 1, left - claims
    end
    if n < first then
      return found, below, n, 0
    end
    n, below = math.max(n, last + 1), below + 1
  end
  -- The last range has no end. So if it is missing, it was deleted manually. The records there are found among the keys.
  return found, below, #ranges > 2 * limit and n or highest + 1, 0
end

-- Checks what `erase` writes.
local function expectErase(n)
  local record = load(n)
  readUse(n)
  read('ZCARD', historyKey(n))
  if record ~= nil then
    expectIndexes(record.host)
    if record.owner then
      pinsOf(record.owner)
    end
    if record.host then
      expectType('list', hostList(record.ip))
    end
  end
end

-- Deletes the mark that shows programs without windows that a holder's worker ID is taken. If such programs were ever seen, a mark stays
-- until no clock can show a time in its window, and then expires by itself. Otherwise these programs would make the same IDs as a holder
-- that does not know of the removal yet.
local function eraseMark(record)
  local _, own = foreignUse(record.workerId, record)
  local key, left = prefix .. 'use:' .. record.workerId, record['until'] + meta.maxClockSkew - now
  if own and meta.beside and left > 0 then
    redis.call('SET', key, own, 'PX', left)
  elseif own then
    redis.call('DEL', key)
  end
  -- The list also contains other worker IDs of this host. They are deleted as well, and nothing reads the list.
  redis.call('DEL', hostList(record.ip))
end

-- Deletes everything of a worker ID, the record last. After a script that failed before that, the next run finds the rest by the record.
local function erase(n)
  local record = load(n)
  redis.call('ZREM', prunable, n)
  if record ~= nil then
    unindex(record)
    if record.token ~= nil then
      redis.call('HDEL', tokenKey, record.token)
    end
    if record.owner then
      setPins(record.owner, n, pinsOf(record.owner), false)
    end
    if record.host then
      eraseMark(record)
    end
  end
  redis.call('DEL', historyKey(n), prefix .. 'window:' .. n)
end

-- Deletes these worker IDs. The time of their last use stays stored: `lastUse` in rule/removal.ts.
local function eraseAll(list)
  local ends = meta.quarantineEnd
  for _, n in ipairs(list) do
    expectErase(n)
    local record = load(n)
    if record ~= nil then
      ends = math.max(ends, record['until'], record.fence)
    end
  end
  if ends > meta.quarantineEnd then
    meta.quarantineEnd = ends
    redis.call('HSET', metaKey, 'quarantineEnd', ends)
  end
  for _, n in ipairs(list) do
    erase(n)
  end
end

local types = { token = 'hash', owners = 'hash', foreign = 'zset', prunable = 'zset', resting = 'zset' }

-- The type of a key that belongs to no single record, by the end of its name. Nil if the key is not ours, or is deleted in another way. A
-- mark at `use:N` without a record may be another program's, so it stays. `lok:lease@IP` expires.
local function typeOf(name)
  if string.find(name, '^pid:lease@') then
    return 'list'
  end
  local isIndex = string.find(name, '^host:') or string.find(name, '^history:%d+$')
  return types[name] or isIndex and 'zset'
end

-- Deletes those of some keys that are ours. They remain if a record, or an index that named them, was deleted manually.
local function eraseKeys(keys)
  local lost, others = {}, {}
  for _, key in ipairs(keys) do
    local name = string.sub(key, #prefix + 1)
    local n, found = tonumber(string.match(name, '^window:(%d+)$')), typeOf(name)
    if n then
      table.insert(lost, n)
    elseif found then
      expectType(found, key)
      table.insert(others, key)
    end
  end
  eraseAll(lost)
  for _, key in ipairs(others) do
    redis.call('DEL', key)
  end
end

expectType('hash', tokenKey)
expectType('zset', prunable)
local list, below, n, claims = lowest()
eraseAll(list)
if claims > 0 then
  redis.call('ZREMRANGEBYRANK', historyKey(n), 0, claims - 1)
end
if #list > 0 or below > 1 then
  if below > 0 then
    redis.call('ZREMRANGEBYRANK', unusedKey, 0, below - 1)
  end
  addRange(0, n - 1)
end
if n <= highest then
  return { 'more', 'next', cursor }
end

local scanned = redis.call('SCAN', cursor, 'MATCH', prefix .. '*', 'COUNT', 1000)
eraseKeys(scanned[2])
if scanned[1] ~= '0' then
  return { 'more', 'next', scanned[1] }
end

local server = redis.call('HMGET', metaKey, 'runId', 'replId', 'received')
redis.call('DEL', metaKey, unusedKey)
if forget ~= '1' then
  -- The same fields as for a quarantine that begins when no namespace is known. `proved`: this namespace was known.
  redis.call(
    'HSET', metaKey, 'runId', server[1] or '', 'replId', server[2] or '', 'received', server[3] or '', 'era',
    eraText(eraNumber(meta.era) + 1, meta.quarantineEnd, mark),
    'quarantineEnd', meta.quarantineEnd, 'opensAt', meta.quarantineEnd, 'proved', 'removed'
  )
end
return { 'removed' }
