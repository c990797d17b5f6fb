-- Deletes entries of the history whose window ended before a time, a batch at a time; the last one of a worker ID stays.
--
-- before limit
--
-- pruned count | wrong-type

expect('zset', 'prunable')
expect('stream', 'history')
if wrongType then
  return wrongType
end
local found = redis.call('ZRANGEBYSCORE', key('prunable'), '-inf', '(' .. arg.before, 'LIMIT', 0, tonumber(arg.limit))
for _, member in ipairs(found) do
  expect('zset', 'history:' .. string.match(member, ' (.*)$'))
end
if wrongType then
  return wrongType
end
for _, member in ipairs(found) do
  local id, n = string.match(member, '^(.*) (.*)$')
  redis.call('XDEL', key('history'), id)
  redis.call('ZREM', key('history:' .. n), id)
  redis.call('ZREM', key('prunable'), member)
end
return { 'pruned', 'count', int(#found) }
