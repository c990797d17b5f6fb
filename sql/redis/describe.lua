-- Reads the fixed properties of a namespace.
--
-- answers: found info | absent | quarantine until clock era quarantineEnd maxClockSkew namespace
-- include: namespace quarantine

-- KEYS[1]: the prefix of the namespace's keys

if meta.layout == nil then
  -- A removed namespace is known not to exist.
  if now < meta.opensAt and meta.proved ~= 'removed' then
    return inQuarantine()
  end
  return { 'absent' }
end
return { 'found', info() }
