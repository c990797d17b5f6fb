-- Puts a pinned worker ID back; its window stays as it was. One that nobody ever used is unused again.
--
-- workerId lag
--
-- unpinned | absent (it was not pinned) | wrong-type

expectWorker(arg.workerId)
if wrongType then
  return wrongType
end
if meta.runId ~= nil then
  guard()
end

local n = tonumber(arg.workerId)
local record = read(n)
if record == nil or record.pinned == nil then
  return { 'absent' }
end
expectFiled(record)
if wrongType then
  return wrongType
end
if record.fence == 0 then
  redis.call('DEL', key('window:' .. arg.workerId))
  redis.call('ZREM', key('ids'), arg.workerId)
  addRange(n, n)
else
  record.pinned = nil
  write(record, record)
end
return { 'unpinned' }
