local workerId, fence, token, clock, window, lag, lastTimestamp, lastSequence = unpack(ARGV)

-- Raises `until` and the checkpoint of a claim that is still the asker's: rule/window.ts, renewed.
--
-- renewed clock from until | lost | refused + record? | quarantine + until

clock, window = tonumber(clock), tonumber(window)
local timestamp, sequence = tonumber(lastTimestamp), tonumber(lastSequence)
if
  not (window % 1 == 0 and window >= 1 and window <= meta.maxWindow)
  or not (math.abs(clock - now) <= meta.maxClockSkew)
then
  return { 'refused', info() }
end

local quarantined = guard(lag)
if quarantined then
  return quarantined
end

local n = tonumber(workerId)
local record, text = load(n)
if record == nil or record.token ~= token or record.fence ~= tonumber(fence) then
  return { 'lost' }
end
-- The number is somebody's who keeps no window, or may be: what would be made from here on would be made twice.
if record.vacated or readUse(n) ~= useOf(record) then
  noteBeside()
  return { 'lost' }
end
if timestamp ~= nil and beforeEra(record, timestamp) then
  timestamp = nil
end
if timestamp ~= nil and not (timestamp >= record.floor and timestamp < record['until']) then
  return listed({ 'refused', info() }, record)
end
expectFiled(record)
local note = record.era ~= meta.era and historyOf(n)

-- From here on the holder's own memory is the only one.
record.recentFrom = nil
if note then
  -- The window from before the quarantine is closed for good, and was used all the same: history tells of it, too.
  note(record, text)
  record.continuedFrom = nil
  record.era = meta.era
  record.from = math.max(record.from, meta.quarantine)
  record.floor = record.from
end
record['until'] = math.max(record['until'], math.max(clock, now) + window)
record.seenClock = clock
if timestamp ~= nil then
  local known, highestKnown = record.lastTimestamp or -1, record.lastSequence or -1
  if timestamp > known or (timestamp == known and sequence > highestKnown) then
    record.lastTimestamp, record.lastSequence = timestamp, sequence
  end
end
write(record)
index(record)
return { 'renewed', now, record.from, record['until'] }
