-- Begins the removal of a namespace: an era that never opens, so that nothing is granted or renewed. `sealedEra` in
-- rule/removal.ts.
--
-- answers: sealed id | present info (nothing was changed: it is in another era than the wanted one) | absent
-- include: namespace quarantine

-- KEYS[1]: the prefix of the namespace's keys
local era = ARGV[1] -- the era in which an operator removes the namespace
local maxLag = tonumber(ARGV[2]) -- how much longer a quarantine lasts, ms
local mark = ARGV[3] -- random digits for the era that begins

if meta.layout == nil then
  return { 'absent' }
end
if era ~= meta.era then
  return { 'present', info() }
end
if meta.opensAt ~= neverOpens then
  -- The era that begins stays sealed.
  meta.opensAt = neverOpens
  beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark)
end
return { 'sealed', 'id', meta.id or '' }
