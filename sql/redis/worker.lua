local workerId = unpack(ARGV)

-- One worker ID.
--
-- worker + clock use? own? + record | absent

local record = load(tonumber(workerId))
local use, own = foreignUse(workerId, record)
if record == nil and not use then
  return { 'absent' }
end
local list = listed({ 'worker', info() }, record or { workerId = workerId, ['until'] = 0 })
if use then
  table.insert(list, 'use')
  table.insert(list, use)
elseif own then
  table.insert(list, 'own')
  table.insert(list, own)
end
return list
