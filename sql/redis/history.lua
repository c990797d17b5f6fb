local workerId, from, till, limit, below = unpack(ARGV)

-- Claims of a worker ID, the newest first, whose window, continued part included, meets [from, till), below a fence.
--
-- rows + next? (the fence to go on below); then for each: its fields as a list

from, till, limit, below = tonumber(from), tonumber(till), tonumber(limit), tonumber(below)
local list, count = { 'rows' }, 0

local function add(record)
  local ends, begin = record.reopened or record['until'], record.continuedFrom or record.from
  if count < limit and ends > from and begin < till then
    table.insert(list, listed({}, {
      workerId = record.workerId, fence = record.fence, from = record.from, ['until'] = ends,
      host = record.host, ip = record.ip, pid = record.pid, instance = record.instance, claimedAt = record.claimedAt,
      endedAt = record.ended and record.releasedAt, ['end'] = record.ended, continuedFrom = record.continuedFrom,
    }))
    count = count + 1
  end
end

local record = load(tonumber(workerId))
if record ~= nil and record.claimedAt ~= nil and record.fence < below then
  add(record)
end
local page, key = 1000, prefix .. 'history:' .. workerId
local found = read(key, redis.pcall('ZREVRANGEBYSCORE', key, '(' .. string.format('%.0f', below), '-inf', 'LIMIT', 0, page))
local last = nil
for _, text in ipairs(found) do
  last = unpacked(key, text)
  add(last)
end
if #found == page and count < limit then
  table.insert(list, 'next')
  table.insert(list, last.fence)
end
return list
