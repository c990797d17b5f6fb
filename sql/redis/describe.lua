-- What is fixed for a namespace.
--
-- found layout maxWindow maxClockSkew clock | absent | wrong-type

if wrongType then
  return wrongType
end
if meta.layout == nil then
  return { 'absent' }
end
return { 'found', info() }
