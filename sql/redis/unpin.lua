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
local owner = record.owner
local pins = owner and pinsOf(owner)
if record.fence == 0 then
  redis.call('DEL', prefix .. 'window:' .. workerId)
  addRange(n, n)
else
  expectFiled(record)
  record.pinned, record.owner = nil, nil
  if owner and record.token == nil then
    -- It may have used the number without a lease since: nobody continues there.
    record.clean, record.recentFrom = false, nil
  end
  write(record)
  index(record)
end
if owner then
  setPins(owner, n, pins, false)
end
return { 'unpinned' }
