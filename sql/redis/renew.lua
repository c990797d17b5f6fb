-- Raises `until` and the checkpoint of a claim that is still the asker's: core/window.ts, renewed.
--
-- workerId fence token clock window lastTimestamp? lastSequence? lag
--
-- renewed from until clock | lost | refused + record | quarantine until | wrong-type

expectWorker(arg.workerId)
if wrongType then
  return wrongType
end
local quarantined = guard()
if quarantined then
  return quarantined
end

local clock, window = tonumber(arg.clock), tonumber(arg.window)
local timestamp, sequence = tonumber(arg.lastTimestamp), tonumber(arg.lastSequence)
if not (window % 1 == 0 and window >= 1 and window <= maxWindow()) or not (math.abs(clock - now) <= maxClockSkew()) then
  return answer('refused', nil, info())
end

local record = read(tonumber(arg.workerId))
if record == nil or record.token ~= arg.token or record.fence ~= tonumber(arg.fence) then
  return { 'lost' }
end
-- Somebody who keeps no window has the number now: what would be made from here on would be made twice. Nobody else touches that key.
if redis.call('GET', key('use:' .. arg.workerId)) ~= useOf(record) then
  noteBeside()
  return { 'lost' }
end
if timestamp ~= nil and beforeEra(record, timestamp) then
  timestamp = nil
end
if timestamp ~= nil and not (timestamp >= record.floor and timestamp < record['until']) then
  return answer('refused', record, info())
end
expectFiled(record)
if wrongType then
  return wrongType
end

-- From here on the holder's own memory is the only one.
record.recentFrom, record.recent = nil, nil
if record.era ~= meta.era then
  -- The window from before the quarantine is closed for good, and was used all the same: history tells of it, too.
  local id = noteWindow(record)
  redis.call('ZADD', key('prunable'), int(record['until']), id .. ' ' .. int(record.workerId))
  record.continuedFrom = nil
  record.era = meta.era
  record.from = math.max(record.from, eraBegin())
  record.floor = record.from
end
record['until'] = math.max(record['until'], math.max(clock, now) + window)
record.seenClock = clock
if timestamp ~= nil then
  local known, highest = record.lastTimestamp or -1, record.lastSequence or -1
  if timestamp > known or (timestamp == known and sequence > highest) then
    record.lastTimestamp, record.lastSequence = timestamp, sequence
  end
end
write(record, record)
return { 'renewed', 'from', int(record.from), 'until', int(record['until']), 'clock', int(now) }
