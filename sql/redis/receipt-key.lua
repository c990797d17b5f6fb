-- Reads the key with which a daemon signs receipts.
--
-- answers: found key | absent
-- include: namespace

-- KEYS[1]: the prefix of the namespace's keys

local key = meta.layout ~= nil and redis.call('HGET', metaKey, 'receiptKey')
return key and { 'found', 'key', key } or { 'absent' }
