-- This server's clock; and that it takes writes.
--
-- pong + clock

local key = prefix .. 'ping'
expect('string', key)
redis.call('SET', key, now)
redis.call('DEL', key)
return { 'pong', 'clock', now }
