-- Records of worker IDs, the indexes that list them, and their history. Needs: namespace.

-- A local, because it is called for each field of a record, and a local is found faster than a global.
local type = type

-- The fields of a record and their types. A field that is not listed belongs to a later version, and every write keeps it. So a later
-- version may add only texts, booleans and whole numbers up to 2^53.
local fieldTypes = {
  workerId = 'number', fence = 'number', from = 'number', ['until'] = 'number', seenClock = 'number', knownFrom = 'number',
  clean = 'boolean', host = 'string', ip = 'string', pid = 'string', instance = 'string', process = 'string',
  claimedAt = 'number', era = 'string', renewals = 'number', turn = 'string', recentFrom = 'number', continuedFrom = 'number',
  lastTimestamp = 'number', lastSequence = 'number', releasedAt = 'number', vacated = 'boolean', ended = 'string',
  reopened = 'number', pinned = 'string', owner = 'string', repeated = 'boolean',
}

-- The record that the text at this key contains.
local function unpackRecord(key, text)
  local ok, record = pcall(cmsgpack.unpack, text)
  if not ok or type(record) ~= 'table' then
    failNonsense(key, 'record', text)
  end
  for name, value in pairs(record) do
    local expected, found = fieldTypes[name], type(value)
    if expected ~= found then
      if expected ~= nil or type(name) ~= 'string' then
        failNonsense(key, tostring(name), value)
      end
    elseif found == 'number' and (value < 0 or value % 1 ~= 0 or value > highest) then
      failNonsense(key, tostring(name), value)
    end
  end
  -- No loops, because each renewal runs this.
  local missing = not record.fence and 'fence' or not record.from and 'from' or not record['until'] and 'until'
    or not record.seenClock and 'seenClock' or not record.knownFrom and 'knownFrom'
  -- A worker ID that was pinned before its first claim has no holder.
  if not missing and (record.host or record.fence > 0) then
    missing = not record.host and 'host' or not record.ip and 'ip' or not record.pid and 'pid'
      or not record.claimedAt and 'claimedAt'
  end
  if missing then
    failNonsense(key, missing)
  end
  return record
end

-- Copies the fields of later versions from the replaced record.
local function keepUnknown(record, replaced)
  for name, value in pairs(replaced) do
    if fieldTypes[name] == nil and name ~= 'token' and name ~= 'recent' then
      record[name] = value
    end
  end
end

-- The text of a record, without token and recents. These are stored beside it, and are not part of the history.
local function packRecord(record)
  local token, recent = record.token, record.recent
  record.token, record.recent = nil, nil
  local text = cmsgpack.pack(record)
  record.token, record.recent = token, recent
  return text
end

-- The record of a worker ID and its text, or nil, as they were when this script began.
local loaded, texts = {}, {}
local function load(n)
  if loaded[n] == nil then
    local key = prefix .. 'window:' .. n
    local found = read('HMGET', key, 'record', 'token', 'recent')
    local record = found[1] and unpackRecord(key, found[1])
    if record then
      record.workerId, record.recent = n, found[3] or ''
      record.token = found[2] and found[2] ~= '' and found[2] or nil
      texts[n] = found[1]
    end
    loaded[n] = record
  end
  return loaded[n] or nil, texts[n]
end

local function write(record)
  local recent = record.recentFrom and record.recent or ''
  redis.call(
    'HSET', prefix .. 'window:' .. record.workerId, 'record', packRecord(record), 'token', record.token or '', 'recent', recent
  )
end

-- Appends a record to an answer, as names and values. A list in an answer is a row, so a field with several values is left out.
local function listed(list, record)
  for name, value in pairs(record) do
    if type(value) ~= 'table' then
      list[#list + 1] = name
      list[#list + 1] = value == true and '1' or value or '0'
    end
  end
  return list
end

-- The end that a claim's window had before an operator reopened it.
local function closedUntil(record)
  return record.reopened or record['until']
end

-- Stores the later one of two checkpoints.
local function advance(record, timestamp, sequence)
  local known, highestKnown = record.lastTimestamp or -1, record.lastSequence or -1
  if timestamp ~= nil and (timestamp > known or (timestamp == known and sequence > highestKnown)) then
    record.lastTimestamp, record.lastSequence = timestamp, sequence
  end
end

local restingKey = prefix .. 'resting'

local function hostKey(host)
  return prefix .. 'host:' .. host
end

-- A worker ID that was pinned before its first claim has no host, and is in no index.
local function unindex(record)
  if record.host ~= nil then
    redis.call('ZREM', restingKey, record.workerId)
    redis.call('ZREM', hostKey(record.host), record.workerId)
  end
end

local function index(record)
  if record.host ~= nil and record.pinned == nil then
    -- A command writes a number as text, which takes as long as the rest of the command.
    local score, member = string.format('%d', record['until']), string.format('%d', record.workerId)
    redis.call('ZADD', restingKey, score, member)
    redis.call('ZADD', hostKey(record.host), score, member)
  end
end

-- Checks the indexes that contain the records of a host.
local function expectIndexes(host)
  if host ~= nil then
    expectType('zset', restingKey)
    expectType('zset', hostKey(host))
  end
end

-- Checks the history of a worker ID. Returns a function that adds a claim to it.
local function historyOf(n)
  local key = prefix .. 'history:' .. n
  local empty = read('ZCARD', key) == 0
  if empty then
    expectType('zset', prefix .. 'prunable')
  end
  return function(record, text)
    redis.call('ZADD', key, record.fence, text)
    if empty then
      redis.call('ZADD', prefix .. 'prunable', closedUntil(record), n)
    end
  end
end
