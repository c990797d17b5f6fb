-- What is fixed for a namespace.
--
-- found + layout maxWindow maxClockSkew clock | absent

if meta.layout == nil then
  return { 'absent' }
end
return { 'found', info() }
