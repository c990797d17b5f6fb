-- Ends a quarantine by an operator's decision: `openedEra` in rule/era.ts.
--
-- answers: present info (changed only where its era is the wanted one; without a layout where only a quarantine is noted) | absent
-- include: namespace quarantine

-- KEYS[1]: the prefix of the namespace's keys
local era = ARGV[1] -- the era whose quarantine ends

if meta.layout == nil and now >= meta.opensAt then
  return { 'absent' }
end
if era == meta.era and now < meta.opensAt and meta.opensAt ~= neverOpens then
  meta.opensAt = math.min(meta.opensAt, math.max(now + 2 * meta.maxClockSkew + 1, forgottenUntil()))
  redis.call('HSET', metaKey, 'opensAt', meta.opensAt)
end
return { 'present', info() }
