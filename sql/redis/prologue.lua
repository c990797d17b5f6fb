-- Stands before every other script here. KEYS[1] is the prefix of all keys of one namespace: `workerId`, `workerId/NAMESPACE`,
-- in braces on a cluster, so that they share a slot. ARGV is what the script's first line names, '' or nothing where it is not
-- given. An answer is a list: what came of it, then what the script's header says; or, where it says `+`, name, value, name, value.
--
--   meta           hash    what is fixed for the namespace; which server wrote last; era and quarantine; the bands; where a look through
--                          a pool goes on
--   window:N       hash    worker ID N: its record (MessagePack), its holder's token, the recents that may be continued
--   use:N          string  {pid}x{ip}x{hostname}: N is taken. All that a westid process looks at
--   unused         zset    ranges of numbers without a record: the first as member, the last as score
--   resting[:A-B]  zset    worker IDs of the band A-B (or of the one that was made for the whole layout), by the end of their window
--   host[:A-B]:H   zset    the same for each host
--   foreign        zset    worker IDs that somebody took who keeps no window, or may take, by when that was last looked at
--   token          hash    token -> worker ID
--   owners         hash    address -> the worker IDs that are pinned for it, with blanks between
--   pid:lease@IP   list    {pid}x{N}: what this host holds
--   history:N      zset    N's records of claims before the last one, by fence
--   prunable       zset    worker IDs with a history, by the end of the oldest window in it
--
-- What a script writes, it has read, or looked at the type of, before it writes anything; a record is written first, and whole:
-- a script that fails half way leaves its first writes behind. Times are Unix ms, by this server's clock unless a name says else.

local prefix = KEYS[1] .. ':'
local metaKey, tokenKey, unusedKey = prefix .. 'meta', prefix .. 'token', prefix .. 'unused'

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- How far into an index a claim looks: rule/pool.ts.
local look = 8
-- How many numbers of a pool a claim looks at where the indexes lack some.
local sweep = 128
-- Two requests of one host that overtook each other are no clock that was set back: rule/window.ts.
local overtaking = 50
-- The highest number that there can be: the end of the last range of unused ones.
local highest = 9007199254740991

-- Ends the script where a key is another program's.
local function misplaced(key)
  error('MISPLACED ' .. redis.call('TYPE', key)['ok'] .. ' ' .. key, 0)
end

-- Ends the script where a field is not what these scripts put there.
local function nonsense(key, field, value)
  error('NONSENSE ' .. key .. ' ' .. field .. ' ' .. string.sub(tostring(value or ''), 1, 40), 0)
end

-- What a command replied that reads a key.
local function read(key, reply)
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, '^WRONGTYPE') then
      misplaced(key)
    end
    error((string.gsub(reply.err, '^ERR ', '')), 0)
  end
  return reply
end

-- For a key that is written and not read.
local function expect(type, key)
  local found = redis.call('TYPE', key)['ok']
  if found ~= type and found ~= 'none' then
    misplaced(key)
  end
end

local meta
do
  local found = read(metaKey, redis.pcall(
    'HMGET', metaKey, 'layout', 'replId', 'maxWindow', 'maxClockSkew', 'era', 'quarantine', 'beside', 'bands', 'schema'
  ))
  -- What a later version keeps here may mean something else.
  if found[9] and found[9] ~= '1' then
    error('VERSION ' .. string.sub(found[9], 1, 40), 0)
  end
  local function whole(field, text, default)
    if not text then
      return default
    end
    local value = tonumber(text)
    if not value or value < 0 or value % 1 ~= 0 then
      nonsense(metaKey, field, text)
    end
    return value
  end
  meta = {
    layout = found[1] or nil,
    replId = found[2] or nil,
    -- Where nothing is known of a namespace: rule/registry.ts.
    maxWindow = whole('maxWindow', found[3], 600000),
    maxClockSkew = whole('maxClockSkew', found[4], 10000),
    era = whole('era', found[5], 0),
    -- The end of the last quarantine: no window of this era begins before it.
    quarantine = whole('quarantine', found[6], 0),
    beside = found[7],
    bands = found[8] or '',
  }
end

local function field(info, name)
  local _, last = string.find(info, '\n' .. name .. ':', 1, true)
  return last and string.match(info, '^%x+', last + 1) or ''
end

-- How much this process has taken over from a primary: more, and what it held before is gone. And how often it was told whose replica
-- it is, or that it is none: once more, and another may have been the primary in between, of which this one, cut off, heard nothing.
-- In a cluster that is an epoch. CONFIG RESETSTAT makes them 0, but for the keys that it loaded last, and the epoch.
local function received()
  local bytes = field(redis.call('INFO', 'stats'), 'total_net_repl_input_bytes')
  local keys = field(redis.call('INFO', 'persistence'), 'rdb_last_load_keys_loaded')
  local commands, told = redis.call('INFO', 'commandstats'), 0
  for _, name in ipairs({ 'replicaof', 'slaveof' }) do
    told = told + (string.match(commands, '\ncmdstat_' .. name .. ':calls=(%d+)') or 0)
  end
  if field(redis.call('INFO', 'cluster'), 'cluster_enabled') == '1' then
    told = told .. '/' .. field(redis.call('CLUSTER', 'INFO'), 'cluster_my_epoch')
  end
  return bytes .. '/' .. keys .. '/' .. told
end

-- From now on what this server holds counts as all there is. No two eras bear the same number, even if `meta` was lost in between.
local function beginEra(replication, quarantine)
  meta.replId, meta.era, meta.quarantine = field(replication, 'master_replid'), math.max(now, meta.era + 1), quarantine
  redis.call(
    'HSET', metaKey, 'runId', field(redis.call('INFO', 'server'), 'run_id'), 'replId', meta.replId, 'received', received(),
    'era', meta.era, 'quarantine', quarantine
  )
end

-- Nothing is granted or renewed until every window that may ever have been granted has passed.
local function beginQuarantine(replication, lag)
  local ends = now + meta.maxWindow + 2 * meta.maxClockSkew + (tonumber(lag) or 0)
  beginEra(replication, math.max(ends, meta.quarantine))
end

local function inQuarantine()
  return { 'quarantine', 'until', meta.quarantine, 'clock', now }
end

-- A server that was restarted, promoted or flushed may have forgotten windows that it had acknowledged. From the moment that is
-- noticed, nothing is granted or renewed until every window that may ever have been granted has passed: until `quarantine`. Records
-- written before are of an older era: nobody continues behind them, and every window begins at `quarantine` or later.
-- Answers the refusal to give, or nothing; then whether it is in doubt what was forgotten. A caller whose clock contradicts this server's
-- begins no quarantine: one that began by a clock which is ahead would last until that time.
--
-- A primary makes up its replication id when it starts or is promoted, and keeps it for itself: the primary that bears the id in
-- `meta` is the very process that wrote it, and has been the primary ever since. (A replica bears its primary's.)
local function guard(lag, clock)
  local replication = redis.call('INFO', 'replication')
  local primary = string.find(replication, '\nrole:master\r', 1, true)
  local own = primary and meta.replId and meta.replId ~= ''
    and string.find(replication, '\nmaster_replid:' .. meta.replId .. '\r', 1, true)
  if not own then
    local found = redis.call('HMGET', metaKey, 'runId', 'received')
    -- The same process under a new id that it did not inherit: a first replica came, or the last one left. One that was a replica
    -- in between, and was promoted long ago, looks alike but for what it received.
    local same = primary and found[1] == field(redis.call('INFO', 'server'), 'run_id')
      and string.find(field(replication, 'master_replid2'), '^0*$') and found[2] == received()
    if same then
      redis.call('HSET', metaKey, 'replId', field(replication, 'master_replid'))
    elseif clock ~= nil and math.abs(clock - now) > meta.maxClockSkew then
      return nil, true
    else
      beginQuarantine(replication, lag)
    end
  end
  if now < meta.quarantine then
    return inQuarantine()
  end
end

-- Whether a holder that has come through the last quarantine tells what it used before it: that window is closed, and how far it
-- reached may have been forgotten here.
local function beforeEra(record, timestamp)
  return record.fence <= meta.quarantine and timestamp < meta.quarantine
end

local function info()
  return 'layout', meta.layout or '', 'maxWindow', meta.maxWindow, 'maxClockSkew', meta.maxClockSkew,
    'quarantine', meta.quarantine, 'clock', now
end

-- The fields of a record; those that only a claim leaves behind may be missing.
local kinds = {
  workerId = 'number', fence = 'number', from = 'number', ['until'] = 'number', seenClock = 'number', floor = 'number',
  clean = 'boolean', host = 'string', ip = 'string', pid = 'string', instance = 'string', process = 'string', pool = 'string',
  claimedAt = 'number', era = 'number', recentFrom = 'number', continuedFrom = 'number', lastTimestamp = 'number',
  lastSequence = 'number', releasedAt = 'number', vacated = 'boolean', ended = 'string', reopened = 'number', pinned = 'string',
  owner = 'string',
}

-- A record from its text.
local function unpacked(key, text)
  local ok, record = pcall(cmsgpack.unpack, text)
  if not ok or type(record) ~= 'table' then
    nonsense(key, 'record', text)
  end
  for name, value in pairs(record) do
    local kind = kinds[name]
    if type(value) ~= kind or (kind == 'number' and (value < 0 or value % 1 ~= 0 or value > highest)) then
      nonsense(key, tostring(name), value)
    end
  end
  local missing = not record.fence and 'fence' or not record.from and 'from' or not record['until'] and 'until'
    or not record.seenClock and 'seenClock' or not record.floor and 'floor'
  -- A number that was pinned before anybody claimed it has no claim.
  if not missing and (record.host or record.fence > 0) then
    missing = not record.host and 'host' or not record.ip and 'ip' or not record.pid and 'pid'
      or not record.claimedAt and 'claimedAt'
  end
  if missing then
    nonsense(key, missing)
  end
  return record
end

-- The record of a worker ID and its text, or nothing: as it was when this script began.
local known, texts = {}, {}
local function load(n)
  if known[n] == nil then
    local key = prefix .. 'window:' .. n
    local found = read(key, redis.pcall('HMGET', key, 'record', 'token', 'recent'))
    local record = found[1] and unpacked(key, found[1])
    if record then
      record.workerId, record.recent = n, found[3] or ''
      record.token = found[2] and found[2] ~= '' and found[2] or nil
      texts[n] = found[1]
    end
    known[n] = record
  end
  return known[n] or nil, texts[n]
end

-- Name, value, name, value: of a record, for who is not in the store.
local function listed(list, record)
  for name, value in pairs(record) do
    list[#list + 1] = name
    list[#list + 1] = value == true and '1' or value or '0'
  end
  return list
end

-- `pool`: a band's name.
local function restingKey(pool)
  return pool == '*' and prefix .. 'resting' or prefix .. 'resting:' .. pool
end

local function hostKey(pool, host)
  return pool == '*' and prefix .. 'host:' .. host or prefix .. 'host:' .. pool .. ':' .. host
end

local function unindex(record)
  if record.pool ~= nil then
    redis.call('ZREM', restingKey(record.pool), record.workerId)
    redis.call('ZREM', hostKey(record.pool, record.host), record.workerId)
  end
end

local function index(record)
  if record.pool ~= nil and record.pinned == nil then
    redis.call('ZADD', restingKey(record.pool), record['until'], record.workerId)
    redis.call('ZADD', hostKey(record.pool, record.host), record['until'], record.workerId)
  end
end

-- The indexes under which a record is filed.
local function expectFiled(record)
  if record.pool ~= nil then
    expect('zset', restingKey(record.pool))
    expect('zset', hostKey(record.pool, record.host))
  end
end

-- The text of a record: neither the token nor the recents, which are no part of history.
local function packed(record)
  local token, recent = record.token, record.recent
  record.token, record.recent = nil, nil
  local text = cmsgpack.pack(record)
  record.token, record.recent = token, recent
  return text
end

local function write(record)
  local recent = record.recentFrom and record.recent or ''
  redis.call(
    'HSET', prefix .. 'window:' .. record.workerId, 'record', packed(record), 'token', record.token or '', 'recent', recent
  )
end

-- What `use:N` holds while this record's holder has it, and after it, until the number is given back.
local function useOf(record)
  return record.pid .. 'x' .. record.ip .. 'x' .. record.host
end

local function readUse(n)
  local key = prefix .. 'use:' .. n
  return read(key, redis.pcall('GET', key))
end

-- What somebody else has written at `use:N`, or nothing; and else what this record's holder has written there. One of the same pid, address and host name may have come after us: pid 1 of
-- a container.
local function foreignUse(n, record)
  local use = readUse(n)
  if use and (record == nil or record.host == nil or record.vacated or use ~= useOf(record)) then
    return use
  end
  return nil, use or nil
end

-- Somebody who keeps no window takes numbers here: remembered for good.
local function noteBeside()
  if not meta.beside then
    meta.beside = '1'
    redis.call('HSET', metaKey, 'beside', '1')
  end
end

-- The worker IDs that are pinned for an address, with blanks around each, or nothing.
local ownersKey = prefix .. 'owners'
local function pinsOf(ip)
  return read(ownersKey, redis.pcall('HGET', ownersKey, ip)) or nil
end

-- Takes a worker ID from those that are pinned for an address, or adds it; `pins`: what was read there.
local function setPins(ip, n, pins, add)
  local others = string.gsub(pins or ' ', ' ' .. n .. ' ', ' ', 1)
  if add then
    redis.call('HSET', ownersKey, ip, others .. n .. ' ')
  elseif others == ' ' then
    redis.call('HDEL', ownersKey, ip)
  else
    redis.call('HSET', ownersKey, ip, others)
  end
end

local function hostList(ip)
  return prefix .. 'pid:lease@' .. ip
end

-- This holder's word that it has the number is taken back.
local function leave(record)
  redis.call('LREM', hostList(record.ip), 0, record.pid .. 'x' .. record.workerId)
end

-- What has to be asked before anything is written: how to put a claim into the history of a worker ID.
local function historyOf(n)
  local key = prefix .. 'history:' .. n
  local empty = read(key, redis.pcall('ZCARD', key)) == 0
  if empty then
    expect('zset', prefix .. 'prunable')
  end
  return function(record, text)
    redis.call('ZADD', key, record.fence, text)
    if empty then
      redis.call('ZADD', prefix .. 'prunable', record.reopened or record['until'], n)
    end
  end
end

-- The range of unused numbers that ends at n or above it: its first and last.
local function rangeAt(n)
  local found = read(unusedKey, redis.pcall('ZRANGEBYSCORE', unusedKey, n, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
  if #found == 2 then
    return tonumber(found[1]), tonumber(found[2])
  end
end

local function addRange(first, last)
  if first <= last then
    redis.call('ZADD', unusedKey, last, first)
  end
end

-- Takes a number out of the unused ones.
local function use(n)
  local first, last = rangeAt(n)
  if first ~= nil and first <= n then
    redis.call('ZREM', unusedKey, first)
    addRange(first, n - 1)
    addRange(n + 1, last)
  end
end

-- A namespace is made with one range that holds every number.
local function makeNamespace(layout, maxWindow, maxClockSkew)
  local empty = rangeAt(0) == nil
  meta.layout, meta.maxWindow, meta.maxClockSkew = layout, maxWindow, maxClockSkew
  redis.call('HSET', metaKey, 'layout', layout, 'maxWindow', maxWindow, 'maxClockSkew', maxClockSkew, 'schema', '1')
  if empty then
    addRange(0, highest)
  end
end
