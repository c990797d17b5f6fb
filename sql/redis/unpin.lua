local workerId, lag = unpack(ARGV)

-- Puts a pinned worker ID back; its window stays as it was. One that nobody ever used is unused again.
--
-- unpinned | absent (it was not pinned)

local n = tonumber(workerId)
local record = load(n)
expect('zset', unusedKey)
if meta.replId ~= nil then
  guard(lag)
end
if record == nil or record.pinned == nil then
  return { 'absent' }
end
if record.fence == 0 then
  redis.call('DEL', prefix .. 'window:' .. workerId)
  addRange(n, n)
else
  expectFiled(record)
  record.pinned = nil
  write(record)
  index(record)
end
return { 'unpinned' }
