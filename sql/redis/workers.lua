-- A page of records in ascending order of worker ID, and what foreigners hold among them.
--
-- after limit foreignLast (the highest worker ID that a foreigner could hold)
--
-- page next? clock; then for each: `{worker}` use? and the record

expect('zset', 'ids')
if wrongType then
  return wrongType
end

local limit, after = tonumber(arg.limit), tonumber(arg.after)
local found = redis.call('ZRANGEBYSCORE', key('ids'), '(' .. arg.after, '+inf', 'LIMIT', 0, limit)
local full = #found == limit
local list = { 'page', 'clock', int(now) }
if full then
  table.insert(list, 'next')
  table.insert(list, found[#found])
end
local ours = {}
for _, text in ipairs(found) do
  ours[text] = true
end
local upTo = math.min(tonumber(arg.foreignLast), full and tonumber(found[#found]) or math.huge)
for n = after + 1, upTo do
  if not ours[int(n)] and redis.call('EXISTS', key('use:' .. n)) == 1 then
    table.insert(found, int(n))
  end
end
for _, text in ipairs(found) do
  expect('hash', 'window:' .. text)
  expect('string', 'use:' .. text)
  if wrongType then
    return wrongType
  end
  local record = read(tonumber(text))
  local use = foreignUse(text, record)
  local row = answer('worker', record or { workerId = text, ['until'] = 0 })
  if use then
    table.insert(row, 'use')
    table.insert(row, use)
  end
  table.insert(list, row)
end
return list
