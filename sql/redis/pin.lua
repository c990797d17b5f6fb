-- Keeps a worker ID out of the pool.
--
-- workerId reason lag
--
-- pinned | absent (no such namespace) | wrong-type

expectWorker(arg.workerId)
if wrongType then
  return wrongType
end
if meta.layout == nil then
  return { 'absent' }
end
guard()

local n = tonumber(arg.workerId)
local before = read(n)
expectFiled(before)
if wrongType then
  return wrongType
end
local record = { workerId = n, fence = 0, from = 0, ['until'] = 0, seenClock = 0, clean = '0', floor = 0 }
if before ~= nil then
  for name, value in pairs(before) do
    record[name] = value
  end
else
  use(n)
end
record.pinned = arg.reason
write(record, before)
return { 'pinned' }
