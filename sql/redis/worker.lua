-- One worker ID.
--
-- workerId
--
-- worker clock use? + record | absent | wrong-type

expect('hash', 'window:' .. arg.workerId)
expect('string', 'use:' .. arg.workerId)
if wrongType then
  return wrongType
end
local record = read(tonumber(arg.workerId))
local use = foreignUse(arg.workerId, record)
if record == nil and not use then
  return { 'absent' }
end
local list = answer('worker', record or { workerId = arg.workerId, ['until'] = 0 }, info())
if use then
  table.insert(list, 'use')
  table.insert(list, use)
end
return list
