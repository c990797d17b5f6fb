local after, limit, foreignLast = unpack(ARGV)

-- A page of records in ascending order of worker ID, and what foreigners hold among them (up to `foreignLast`).
--
-- page + clock next?; then for each a list: `worker` use? (a foreigner's) own? (of the record's holder) and the record

after, limit, foreignLast = tonumber(after), tonumber(limit), tonumber(foreignLast)

-- What is not unused has a record, or a foreigner had it when it was met.
local found, n, full = {}, after + 1, false
local ranges = read(unusedKey, redis.pcall('ZRANGEBYSCORE', unusedKey, n, '+inf', 'WITHSCORES', 'LIMIT', 0, limit + 1))
for i = 1, #ranges, 2 do
  local first, last = tonumber(ranges[i]), tonumber(ranges[i + 1])
  while n < first and not full do
    table.insert(found, n)
    n, full = n + 1, #found == limit
  end
  if full then
    break
  end
  n = math.max(n, last + 1)
end

local list = { 'page', 'clock', now }
if full then
  table.insert(list, 'next')
  table.insert(list, found[#found])
end
local used = {}
for _, each in ipairs(found) do
  used[each] = true
end
for each = after + 1, math.min(foreignLast, full and found[#found] or foreignLast) do
  if not used[each] and redis.call('EXISTS', prefix .. 'use:' .. each) == 1 then
    table.insert(found, each)
  end
end
for _, each in ipairs(found) do
  local record = load(each)
  local use, own = foreignUse(each, record)
  if record ~= nil or use then
    local row = listed({ 'worker' }, record or { workerId = each, ['until'] = 0 })
    if use then
      table.insert(row, 'use')
      table.insert(row, use)
    elseif own then
      table.insert(row, 'own')
      table.insert(row, own)
    end
    table.insert(list, row)
  end
end
return list
