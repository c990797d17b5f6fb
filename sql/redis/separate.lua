-- Gives a copy of a namespace its own id and receipt key, and begins a quarantine: `separated` in rule/new-namespace.ts.
--
-- answers: present info (changed only where its era was the wanted one) | absent
-- include: namespace quarantine

-- KEYS[1]: the prefix of the namespace's keys
local era = ARGV[1] -- the era of the copy
local maxLag = tonumber(ARGV[2]) -- how much longer a quarantine lasts, ms
local mark = ARGV[3] -- random digits for the era that begins
local id = ARGV[4] -- the new id
local receiptKey = ARGV[5] -- the new key

if meta.layout == nil then
  return { 'absent' }
end
if era == meta.era and meta.opensAt ~= neverOpens then
  beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark)
  meta.id = id
  redis.call('HSET', metaKey, 'id', id, 'receiptKey', receiptKey)
end
return { 'present', info() }
