-- Reads this server's clock, and shows that the server accepts writes.
--
-- answers: pong clock
-- include: namespace

-- KEYS[1]: the prefix of a namespace's keys

local key = prefix .. 'ping'
expectType('string', key)
redis.call('SET', key, now)
redis.call('DEL', key)
return { 'pong', 'clock', now }
