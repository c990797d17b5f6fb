-- This server's clock; and that it takes writes.
--
-- pong clock | wrong-type

expect('string', 'ping')
if wrongType then
  return wrongType
end
redis.call('SET', key('ping'), int(now))
redis.call('DEL', key('ping'))
return { 'pong', 'clock', int(now) }
