-- Raises the end and the checkpoint of a claim that the caller still holds: `renewed` in rule/window.ts.
--
-- answers: renewed, and without names: clock from until | lost | refused info record? | quarantine until clock
-- include: namespace quarantine records marks

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local fence = tonumber(ARGV[2]) -- of the claim
local token = ARGV[3] -- of the claim
local clock = tonumber(ARGV[4]) -- the holder's, Unix ms
local window = tonumber(ARGV[5]) -- its length, ms
local maxLag = tonumber(ARGV[6]) -- how much longer a quarantine lasts, ms
local lastTimestamp = tonumber(ARGV[7]) -- the newest tick that was used, Unix ms; '': none
local lastSequence = tonumber(ARGV[8]) -- the highest sequence in it

if
  not (window % 1 == 0 and window >= 1 and window <= meta.maxWindow)
  or not (math.abs(clock - now) <= meta.maxClockSkew)
then
  return { 'refused', info() }
end

local quarantined = checkQuarantine(maxLag)
if quarantined then
  return quarantined
end

local record, text = load(workerId)
if record == nil or record.token ~= token or record.fence ~= fence then
  return { 'lost' }
end
-- A program that keeps no window has the worker ID, or may have it: it would make the same IDs from here on.
if record.vacated or readUse(workerId) ~= useOf(record) then
  noteBeside()
  return { 'lost' }
end
if lastTimestamp ~= nil and isBeforeEra(record, lastTimestamp) then
  lastTimestamp = nil
end
if lastTimestamp ~= nil and not (lastTimestamp >= record.knownFrom and lastTimestamp < record['until']) then
  return listed({ 'refused', info() }, record)
end
expectIndexes(record.band, record.host)
local note = record.era ~= meta.era and historyOf(workerId)

-- From here on only the holder's own memory counts.
record.recentFrom = nil
if note then
  -- The window from before the quarantine is closed for good. It was used, so it goes into the history.
  note(record, text)
  record.continuedFrom = nil
  record.era = meta.era
  record.from = math.max(record.from, meta.quarantineEnd)
  record.knownFrom = record.from
end
record['until'] = math.max(record['until'], math.max(clock, now) + window)
record.seenClock = clock
advance(record, lastTimestamp, lastSequence)
write(record)
index(record)
return { 'renewed', now, record.from, record['until'] }
