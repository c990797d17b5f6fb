-- Reads what is fixed for a namespace.
--
-- answers: found info | absent | quarantine until clock
-- include: namespace quarantine

-- KEYS[1]: the prefix of the namespace's keys

if meta.layout == nil then
  if now < meta.opensAt and meta.droppedLayout == nil then
    return inQuarantine()
  end
  return { 'absent' }
end
return { 'found', info() }
