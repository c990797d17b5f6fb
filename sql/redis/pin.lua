local workerId, reason, lag, owner, usedUntil = unpack(ARGV)

-- Keeps a worker ID out of the pool, for the host with the address `owner` where one is named: rule/pin.ts, checkOwner and
-- pinnedRecord.
--
-- pinned | absent (no such namespace) | refused + record

local n = tonumber(workerId)
local record = load(n)
readUse(n)
expect('zset', unusedKey)
if record ~= nil then
  expectFiled(record)
end
if owner == '' then
  owner = nil
end
usedUntil = tonumber(usedUntil) or 0
local left = record and record.owner ~= owner and record.owner or nil
local leftPins, pins = left and pinsOf(left), owner and pinsOf(owner)
if meta.layout == nil then
  return { 'absent' }
end
if
  usedUntil > now + meta.maxWindow + meta.maxClockSkew
  or (record ~= nil and record.token ~= nil and usedUntil > record.from)
then
  return listed({ 'refused', info() }, record or { workerId = n, ['until'] = 0 })
end
guard(lag)

local unused = record == nil
record = record or { workerId = n, fence = 0, from = 0, ['until'] = 0, seenClock = 0, clean = false, floor = 0 }
record.pinned, record.owner = reason, owner
if usedUntil > record['until'] then
  record['until'], record.clean, record.recentFrom = usedUntil, false, nil
end
write(record)
if unused then
  use(n)
end
unindex(record)
if left then
  setPins(left, n, leftPins, false)
end
if owner then
  setPins(owner, n, pins, true)
end
return { 'pinned' }
