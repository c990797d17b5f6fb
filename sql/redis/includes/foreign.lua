-- Worker IDs that programs without windows (Java processes of westid) take beside ours. Needs: namespace, records, marks, unused.

local foreignKey = prefix .. 'foreign'

-- Whether a worker ID without a record was never ours. Otherwise its record was deleted, together with a window.
local function isNew(n)
  local from = rangeAt(n)
  return meta.layout == nil or (from ~= nil and from <= n) or read('ZSCORE', foreignKey, n)
end

-- Files a worker ID as another program's.
local function noteForeign(n, record)
  expectType('zset', foreignKey)
  if record == nil then
    if not isNew(n) then
      noteBeside()
      return
    end
    use(n)
  else
    expectIndexes(record.host)
    unindex(record)
  end
  noteBeside()
  redis.call('ZADD', foreignKey, now, n)
end

-- The records whose worker IDs are given back to other programs, because no clock can show a time in their windows: at most four, without
-- the record of n. `entries`: the worker IDs that have rested longest, each with the end of its window.
local function rested(entries, n, skew)
  local found, latest = {}, now - skew
  for _, entry in ipairs(entries) do
    local each = entry[1]
    if #found == 4 or entry[2] > latest then
      break
    end
    local record = load(each)
    if record ~= nil and each ~= n and record['until'] <= latest then
      expectIndexes(record.host)
      local _, own = foreignUse(each, record)
      table.insert(found, { record = record, own = own })
    end
  end
  return found
end

-- Gives worker IDs back to other programs. Record and window stay, but from now on, a mark at `use:N` is another program's, even if it
-- looks the same.
local function giveBack(found)
  for _, each in ipairs(found) do
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
