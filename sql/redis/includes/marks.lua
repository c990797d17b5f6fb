-- Marks that show programs without windows (Java processes of westid) that a worker ID is taken: `use:N`, and the list of a host.
-- Needs: namespace, records.

-- The value of `use:N` from the claim of this record until its worker ID is given back.
local function useOf(record)
  return record.pid .. 'x' .. record.ip .. 'x' .. record.host
end

local function readUse(n)
  return read('GET', prefix .. 'use:' .. n)
end

-- The mark of another program at `use:N`, or nil. Then the mark of this record's holder, or nil. The mark of a vacated record belongs to
-- another program even if it looks the same: pid, address and host name can come again, as with pid 1 of a container.
local function foreignUse(n, record)
  local use = readUse(n)
  if use and (record == nil or record.host == nil or record.vacated or use ~= useOf(record)) then
    return use
  end
  return nil, use or nil
end

-- Notes permanently that programs without windows take worker IDs here.
local function noteBeside()
  if not meta.beside then
    meta.beside = '1'
    redis.call('HSET', metaKey, 'beside', '1')
  end
end

local function hostList(ip)
  return prefix .. 'pid:lease@' .. ip
end

local function leaveHostList(record)
  redis.call('LREM', hostList(record.ip), 0, record.pid .. 'x' .. record.workerId)
end

-- Checks what `endClaim` writes. Returns the value of `use:N`.
local function expectEnd(record)
  local use = readUse(record.workerId)
  expectIndexes(record.host)
  expectType('hash', tokenKey)
  expectType('list', hostList(record.ip))
  return use
end

-- Writes a record whose claim has ended. `opens`: whether its window is over, so that the mark is also deleted. If other programs were ever
-- seen, the mark stays.
local function endClaim(record, token, use, opens)
  local vacates = opens and not meta.beside and not record.vacated and use == useOf(record)
  record.vacated = record.vacated or vacates or nil
  write(record)
  index(record)
  if token ~= nil then
    redis.call('HDEL', tokenKey, token)
  end
  leaveHostList(record)
  if vacates then
    redis.call('DEL', prefix .. 'use:' .. record.workerId)
  end
end

-- Appends a worker ID as an operator sees it: its record, and `use` (another program's mark) or `own` (its holder's). Returns nil if there
-- is nothing to see.
local function listedWorker(list, n)
  local record = load(n)
  local use, own = foreignUse(n, record)
  if record == nil and not use then
    return nil
  end
  listed(list, record or { workerId = n, ['until'] = 0 })
  return listed(list, { use = use, own = own })
end
