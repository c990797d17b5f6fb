-- What is fixed for a namespace.
--
-- found + layout maxWindow maxClockSkew quarantine clock | absent | quarantine + until clock

if meta.layout == nil then
  if now < meta.quarantine then
    return inQuarantine()
  end
  return { 'absent' }
end
return { 'found', info() }
