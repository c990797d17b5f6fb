-- Keeps a worker ID out of the pool, or for one address: `checkPin` and `pinnedRecord` in rule/pin.ts.
--
-- answers: pinned | absent (no such namespace) | refused info record
--   | quarantine until clock era quarantineEnd maxClockSkew namespace (it is being removed: its last use was read)
-- include: namespace quarantine records marks unused pins foreign

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local reason = ARGV[2] -- why it is out of the pool
local maxLag = tonumber(ARGV[3]) -- how much longer a quarantine lasts, ms
local owner = ARGV[4] ~= '' and ARGV[4] or nil -- the address that may claim it; '': none
local usedUntil = tonumber(ARGV[5]) or 0 -- no window begins before this, Unix ms; '': 0
local mark = ARGV[6] -- random digits for an era that begins

local record = load(workerId)
readUse(workerId)
expectType('zset', unusedKey)
if record ~= nil then
  expectIndexes(record.host)
end
-- If its record was deleted, other records may have been deleted, too.
local isLost = record == nil and not isNew(workerId)
local left = record and record.owner ~= owner and record.owner or nil
local leftPins, pins = left and pinsOf(left), owner and pinsOf(owner)
if meta.layout == nil then
  return { 'absent' }
end
if
  usedUntil > now + meta.maxWindow + meta.maxClockSkew
  or (record ~= nil and record.token ~= nil and usedUntil > record.from)
then
  return listed({ 'refused', info() }, record or { workerId = workerId, ['until'] = 0 })
end
checkQuarantine(maxLag, mark)
if meta.opensAt == neverOpens then
  return inQuarantine()
end
if isLost then
  beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark)
end

local unused = record == nil
record = record or { workerId = workerId, fence = 0, from = 0, ['until'] = 0, seenClock = 0, clean = false, knownFrom = 0 }
record.pinned, record.owner = reason, owner
if usedUntil > record['until'] then
  record['until'], record.clean, record.recentFrom = usedUntil, false, nil
end
write(record)
if unused then
  use(workerId)
end
unindex(record)
if left then
  setPins(left, workerId, leftPins, false)
end
if owner then
  setPins(owner, workerId, pins, true)
end
return { 'pinned' }
