local workerId, reason, lag = unpack(ARGV)

-- Keeps a worker ID out of the pool.
--
-- pinned | absent (no such namespace)

local n = tonumber(workerId)
local record = load(n)
readUse(n)
expect('zset', unusedKey)
if record ~= nil then
  expectFiled(record)
end
if meta.layout == nil then
  return { 'absent' }
end
guard(lag)

local unused = record == nil
record = record or { workerId = n, fence = 0, from = 0, ['until'] = 0, seenClock = 0, clean = false, floor = 0 }
record.pinned = reason
write(record)
if unused then
  use(n)
end
unindex(record)
return { 'pinned' }
