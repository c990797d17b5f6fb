-- Stands before every other script here. KEYS[1] is the prefix of all keys of one namespace: `workerId`, `workerId/NAMESPACE`,
-- in braces on a cluster, so that they share a slot. ARGV is name, value, name, value. An answer is a list: what came of it,
-- then name, value, name, value.
--
--   meta           hash    what is fixed for the namespace; which server wrote last; era and quarantine
--   window:N       hash    the record of worker ID N
--   use:N          string  {pid}x{ip}x{hostname}: N is taken. All that a westid process looks at
--   ids            zset    worker IDs with a record, by number
--   unused         zset    ranges of numbers without a record: the first as member, the last as score
--   resting[:A-B]  zset    worker IDs last claimed from the pool A-B (or from the whole layout), by the end of their window
--   host[:A-B]:H   zset    the same for each host
--   pools          set     the A-B that there are
--   foreign        zset    worker IDs that somebody took who keeps no window, by when that was last looked at
--   token          hash    token -> worker ID
--   pid:lease@IP   list    {pid}x{N}: what this host holds
--   history        stream  a claim that ended, each
--   history:N      zset    ids of its entries about N, by fence
--   prunable       zset    "id N" of entries behind which N was claimed again, by the end of their window
--
-- What is read is of the right type before anything is written, `until` is written first: a script that fails half way leaves
-- its first writes behind. Times are Unix ms, by this server's clock unless a name says otherwise.

local prefix = KEYS[1]
local arg = {}
for i = 1, #ARGV, 2 do
  arg[ARGV[i]] = ARGV[i + 1]
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- How far into an index a claim looks: core/pool.ts.
local look = 8
-- Two requests of one host that overtook each other are no clock that was set back: core/window.ts.
local overtaking = 50
-- Where nothing is known of a namespace: core/registry.ts.
local defaultMaxWindow, defaultMaxClockSkew = 600000, 10000

local function key(name)
  return prefix .. ':' .. name
end

-- A whole number as text; Lua itself would write 1.7e+12.
local function int(n)
  return string.format('%.0f', n)
end

local function pairsOf(list)
  local map = {}
  for i = 1, #list, 2 do
    map[list[i]] = list[i + 1]
  end
  return map
end

-- Ends the script, before it has written anything, where a key holds something else than these scripts put there.
local wrongType = nil
local expected = {}
local function expect(type, ...)
  for _, name in ipairs({ ... }) do
    if not expected[name] then
      expected[name] = true
      local found = redis.call('TYPE', key(name))['ok']
      if found ~= 'none' and found ~= type then
        wrongType = { 'wrong-type', 'key', key(name), 'type', found, 'expected', type }
      end
    end
  end
end

-- Ends the script where a field of a hash is not the whole number that these scripts put there.
local function expectWhole(name, hash, field, optional)
  local value = hash[field]
  if value == nil then
    if optional then
      return
    end
  elseif #value <= 16 and string.find(value, '^%d+$') then
    return
  end
  error('NONSENSE ' .. key(name) .. ' ' .. field .. ' ' .. string.sub(value or '', 1, 40), 0)
end

expect('hash', 'meta')
local meta = wrongType and {} or pairsOf(redis.call('HGETALL', key('meta')))
for _, field in ipairs({ 'maxWindow', 'maxClockSkew', 'era', 'quarantine' }) do
  expectWhole('meta', meta, field, true)
end

local function maxWindow()
  return tonumber(meta.maxWindow) or defaultMaxWindow
end

local function maxClockSkew()
  return tonumber(meta.maxClockSkew) or defaultMaxClockSkew
end

local function setMeta(values)
  local flat = {}
  for name, value in pairs(values) do
    meta[name] = value
    table.insert(flat, name)
    table.insert(flat, value)
  end
  redis.call('HSET', key('meta'), unpack(flat))
end

local function field(info, name)
  local _, last = string.find(info, '\n' .. name .. ':', 1, true)
  return last and string.match(info, '^%x+', last + 1) or ''
end

-- Which server this is, and which data set it holds.
local function identity()
  local replication = redis.call('INFO', 'replication')
  return {
    runId = field(redis.call('INFO', 'server'), 'run_id'),
    replId = field(replication, 'master_replid'),
    replId2 = field(replication, 'master_replid2'),
  }
end

-- How much this process has taken over from a primary: more, and what it held before is gone.
local function received()
  return field(redis.call('INFO', 'stats'), 'total_net_repl_input_bytes')
end

-- From now on what this server holds counts as all there is. No two eras bear the same number, even if `meta` was lost in between.
local function beginEra(id, quarantine)
  setMeta({
    runId = id.runId,
    replId = id.replId,
    received = received(),
    era = int(math.max(now, (tonumber(meta.era) or 0) + 1)),
    quarantine = quarantine,
  })
end

-- A server that was restarted, promoted or flushed may have forgotten windows that it had acknowledged. From the moment that is
-- noticed, nothing is granted or renewed until every window that may ever have been granted has passed: until `quarantine`. Records
-- written before are of an older era: nobody continues behind them, and every window begins at `quarantine` or later.
-- Answers the refusal to give, or nothing.
local function guard()
  local id = identity()
  if meta.runId ~= id.runId or meta.replId ~= id.replId then
    -- The same process under a new id that it did not inherit: a first replica came, or the last one left. One that was a replica
    -- in between, and was promoted long ago, looks alike.
    local same = meta.runId == id.runId and string.match(id.replId2, '^0*$') and meta.received == received()
    if same then
      setMeta({ replId = id.replId })
    else
      local quarantine = now + maxWindow() + 2 * maxClockSkew() + (tonumber(arg.lag) or 0)
      beginEra(id, int(math.max(quarantine, tonumber(meta.quarantine) or 0)))
    end
  end
  if now < (tonumber(meta.quarantine) or 0) then
    return { 'quarantine', 'until', meta.quarantine, 'clock', int(now) }
  end
end

-- The end of the last quarantine: no window of this era begins before it.
local function eraBegin()
  return tonumber(meta.quarantine) or 0
end

-- Whether a holder that has come through the last quarantine tells what it used before it: that window is closed, and how far it
-- reached may have been forgotten here.
local function beforeEra(record, timestamp)
  return record.fence <= eraBegin() and timestamp < eraBegin()
end

local function info()
  return 'layout', meta.layout or '', 'maxWindow', int(maxWindow()), 'maxClockSkew', int(maxClockSkew()), 'clock', int(now)
end

local numbers = {
  'fence', 'from', 'until', 'seenClock', 'floor', 'recentFrom', 'lastTimestamp', 'lastSequence', 'claimedAt', 'releasedAt', 'continuedFrom',
}
local texts = { 'token', 'clean', 'recent', 'host', 'ip', 'pid', 'instance', 'process', 'pinned', 'era', 'pool', 'ended' }

local optional = { recentFrom = true, lastTimestamp = true, lastSequence = true, releasedAt = true, continuedFrom = true }

-- The record of a worker ID, or nothing: as it was when this script began.
local known = {}
local function read(n)
  if known[n] ~= nil then
    return known[n] or nil
  end
  local name = 'window:' .. n
  local found = redis.call('HGETALL', key(name))
  if #found == 0 then
    known[n] = false
    return nil
  end
  local record = pairsOf(found)
  for _, field in ipairs(numbers) do
    expectWhole(name, record, field, optional[field] or (field == 'claimedAt' and record.fence == 0))
    record[field] = tonumber(record[field])
  end
  if record.fence > 0 then
    for _, field in ipairs({ 'host', 'ip', 'pid', 'instance' }) do
      record[field] = record[field] or ''
    end
  end
  record.workerId = n
  known[n] = record
  return record
end

-- The fields of a record as they are stored, `until` first; and the names of those that it has not.
local function fieldsOf(record)
  local stored, absent, at = { 'until', int(record['until']) }, {}, 2
  for _, name in ipairs(numbers) do
    local value = record[name]
    if value == nil then
      absent[#absent + 1] = name
    elseif name ~= 'until' then
      stored[at + 1], stored[at + 2] = name, int(value)
      at = at + 2
    end
  end
  for _, name in ipairs(texts) do
    local value = record[name]
    if value == nil then
      absent[#absent + 1] = name
    else
      stored[at + 1], stored[at + 2] = name, value
      at = at + 2
    end
  end
  return stored, absent
end

-- `...`: more names and values.
local function answer(outcome, record, ...)
  local list = { outcome, ... }
  if record ~= nil then
    local at = #list
    list[at + 1], list[at + 2] = 'workerId', record.workerId
    for i, value in ipairs((fieldsOf(record))) do
      list[at + 2 + i] = value
    end
  end
  return list
end

local function restingName(pool)
  return pool == '' and 'resting' or 'resting:' .. pool
end

local function hostName(pool, host)
  return (pool == '' and 'host:' or 'host:' .. pool .. ':') .. host
end

local function unindex(record)
  if record.pool ~= nil then
    redis.call('ZREM', key(restingName(record.pool)), record.workerId)
    redis.call('ZREM', key(hostName(record.pool, record.host)), record.workerId)
  end
end

local function index(record)
  if record.pool ~= nil and record.pinned == nil then
    redis.call('ZADD', key(restingName(record.pool)), int(record['until']), record.workerId)
    redis.call('ZADD', key(hostName(record.pool, record.host)), int(record['until']), record.workerId)
  end
end

-- Stores a record in the place of the one before, and files it.
local function write(record, before)
  local stored, absent = fieldsOf(record)
  local name = key('window:' .. record.workerId)
  redis.call('HSET', name, unpack(stored))
  if before ~= nil and #absent > 0 then
    redis.call('HDEL', name, unpack(absent))
  end
  if before == nil then
    redis.call('ZADD', key('ids'), record.workerId, record.workerId)
  else
    if before.token ~= nil and before.token ~= record.token then
      redis.call('HDEL', key('token'), before.token)
    end
    if before.pool ~= record.pool or before.host ~= record.host or record.pinned ~= nil then
      unindex(before)
    end
  end
  index(record)
end

-- What `use:N` holds while this record's holder has it, and after it, until the number is given back.
local function useOf(record)
  return (record.pid or '') .. 'x' .. (record.ip or '') .. 'x' .. (record.host or '')
end

-- What somebody else has written at `use:N`, or nothing.
local function foreignUse(n, record)
  local use = redis.call('GET', key('use:' .. n))
  if use and (record == nil or record.fence == 0 or use ~= useOf(record)) then
    return use
  end
end

-- Somebody who keeps no window takes numbers here: remembered for good.
local function noteBeside()
  if meta.beside == nil then
    setMeta({ beside = '1' })
  end
end

-- This holder's word that it has the number is taken back.
local function leave(record)
  redis.call('LREM', key('pid:lease@' .. (record.ip or '')), 0, (record.pid or '') .. 'x' .. record.workerId)
end

-- What a script about one worker ID may read or write, but for the indexes of its pool and host.
local function expectWorker(n)
  expect('hash', 'window:' .. n, 'token')
  expect('string', 'use:' .. n)
  expect('zset', 'ids', 'unused', 'foreign', 'prunable', 'history:' .. n)
  expect('stream', 'history')
end

-- The indexes under which a record is filed.
local function expectFiled(record)
  if record ~= nil and record.host ~= nil then
    expect('list', 'pid:lease@' .. record.ip)
    if record.pool ~= nil then
      expect('zset', restingName(record.pool), hostName(record.pool, record.host))
    end
  end
end

-- Writes the window of a record into the history; `how` its claim ended, unless it goes on. Answers the entry's id.
local function noteWindow(record, how)
  local row = {
    'worker', record.workerId, 'fence', int(record.fence), 'from', int(record.from), 'until', int(record['until']),
    'host', record.host, 'ip', record.ip, 'pid', record.pid, 'instance', record.instance,
    'claimedAt', int(record.claimedAt),
  }
  local function add(name, value)
    table.insert(row, name)
    table.insert(row, value)
  end
  if how ~= nil then
    add('endedAt', int(now))
    add('end', how)
  end
  if record.continuedFrom ~= nil then
    add('continuedFrom', int(record.continuedFrom))
  end
  local id = redis.call('XADD', key('history'), '*', unpack(row))
  redis.call('ZADD', key('history:' .. record.workerId), int(record.fence), id)
  return id
end

-- Notes how the claim of a record ended, unless that was noted before.
local function noteEnd(record, how)
  if record.ended == nil and record.claimedAt ~= nil then
    noteWindow(record, how)
  end
end

-- The range of unused numbers that ends at n or above it: its first and last.
local function rangeAt(n)
  local found = redis.call('ZRANGEBYSCORE', key('unused'), n, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #found == 2 then
    return tonumber(found[1]), tonumber(found[2])
  end
end

local function addRange(first, last)
  if first <= last then
    redis.call('ZADD', key('unused'), int(last), int(first))
  end
end

-- Takes a number out of the unused ones.
local function use(n)
  local first, last = rangeAt(n)
  if first ~= nil and first <= n then
    redis.call('ZREM', key('unused'), int(first))
    addRange(first, n - 1)
    addRange(n + 1, last)
  end
end

-- A namespace is made with one range that holds every number.
local function makeNamespace(layout, longest, skew)
  setMeta({ layout = layout, maxWindow = longest, maxClockSkew = skew, schema = '1' })
  if redis.call('EXISTS', key('unused')) == 0 and redis.call('EXISTS', key('ids')) == 0 then
    addRange(0, 9007199254740991)
  end
end
