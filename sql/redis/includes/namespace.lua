-- The keys of a namespace, the server's clock, and the fixed properties of the namespace. Every script includes this first.
--
-- KEYS[1] is the prefix of all keys of one namespace: `workerId` or `workerId/NAMESPACE`. On a cluster it is in braces, so that the keys
-- share a slot. Each ARGV is a text. '' means that the caller omits the argument. A script returns a list: the outcome, then pairs of
-- a name and its value. Its header lists the outcomes with their names. `row`: a nested list of names and values.
--
--   meta           hash    id, receipt key and settings of the namespace; the server that wrote last; era and quarantine
--   window:N       hash    worker ID N: its record (MessagePack), the hash of its holder's token, the recents that the next holder may
--                          continue
--   use:N          string  {pid}x{ip}x{hostname}: N is taken. Java processes of westid look at nothing else
--   unused         zset    ranges of worker IDs without a record: the first as member, the last as score
--   resting        zset    worker IDs that were claimed, and are neither pinned nor foreign, by the end of their window
--   host:H         zset    the same, of those whose last holder ran on this host
--   foreign        zset    worker IDs that programs without windows hold, or may hold, by the time of the last look
--   token          hash    hash of a token -> worker ID
--   owners         hash    address -> the worker IDs that are pinned for it, with a space around each
--   pid:lease@IP   list    {pid}x{N}: the worker IDs that this host holds
--   history:N      zset    records of N's claims before the last one, by fence
--   prunable       zset    worker IDs with a history, by the end of the oldest window in it
--
-- Before its first write, a script reads each key that it writes, or checks the key's type, because a script that fails half way keeps its
-- first writes. For the same reason it writes a record first, in one command. Times are Unix ms by this server's clock unless a name says
-- otherwise.

local prefix = KEYS[1] .. ':'
local metaKey, tokenKey, unusedKey = prefix .. 'meta', prefix .. 'token', prefix .. 'unused'

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The highest worker ID that any layout can have: the end of the last range in `unused`.
local highest = 9007199254740991

-- Ends the script: the key belongs to another program.
local function failMisplaced(key)
  error('MISPLACED ' .. redis.call('TYPE', key)['ok'] .. ' ' .. key, 0)
end

-- Ends the script: no script of ours wrote this value.
local function failNonsense(key, field, value)
  error('NONSENSE ' .. key .. ' ' .. field .. ' ' .. string.sub(tostring(value or ''), 1, 40), 0)
end

local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, '^WRONGTYPE') then
      failMisplaced(key)
    end
    error((string.gsub(reply.err, '^ERR ', '')), 0)
  end
  return reply
end

-- Checks a key that the script writes without reading it.
local function expectType(type, key)
  local found = redis.call('TYPE', key)['ok']
  if found ~= type and found ~= 'none' then
    failMisplaced(key)
  end
end

local meta
do
  local found = read(
    'HMGET', metaKey, 'layout', 'replId', 'maxWindow', 'maxClockSkew', 'era', 'quarantineEnd', 'beside', 'schema', 'id', 'opensAt',
    'proved'
  )
  -- In a later version, these fields may have another meaning.
  if found[8] and found[8] ~= '2' then
    error('VERSION ' .. string.sub(found[8], 1, 40), 0)
  end
  local function whole(field, text, default)
    if not text then
      return default
    end
    local value = tonumber(text)
    if not value or value < 0 or value % 1 ~= 0 then
      failNonsense(metaKey, field, text)
    end
    return value
  end
  -- `NUMBER-HEX`: `Era` in rule/era.ts.
  if found[5] and not string.find(found[5], '^%d+%-%x+$') then
    failNonsense(metaKey, 'era', found[5])
  end
  local quarantineEnd = whole('quarantineEnd', found[6], 0)
  meta = {
    layout = found[1] or nil,
    replId = found[2] or nil,
    -- The limits if nothing is known about a namespace: `assumedLimits` in rule/limits.ts.
    maxWindow = whole('maxWindow', found[3], 600000),
    maxClockSkew = whole('maxClockSkew', found[4], 10000),
    era = found[5] or nil,
    -- The end of the last quarantine. It never decreases. Fences of this era are above it.
    quarantineEnd = quarantineEnd,
    -- From then on, grants and renewals go on, and no window of this era begins before it. An operator can end a quarantine early.
    opensAt = whole('opensAt', found[10], quarantineEnd),
    id = found[9] or nil,
    beside = found[7],
    -- '1': a holder's receipt proved the namespace when nothing else was known about it.
    -- 'removed': an operator removed it.
    proved = found[11] or nil,
  }
end

-- The fixed properties of the namespace, as names and values.
local function info()
  return 'id', meta.id or '', 'layout', meta.layout or '', 'maxWindow', meta.maxWindow, 'maxClockSkew', meta.maxClockSkew,
    'era', meta.era or '', 'quarantineEnd', meta.quarantineEnd, 'opensAt', meta.opensAt, 'clock', now
end
