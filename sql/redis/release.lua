local workerId, fence, token, clock, ends, lastTimestamp, lastSequence, recentFrom, recent, lag = unpack(ARGV)

-- Gives a worker ID back, and stores what was used: rule/window.ts, released. Without `ends` the window stays as it is.
--
-- released | lost | refused + record

local record = load(tonumber(workerId))
local doubtful = false
if meta.replId ~= nil then
  local _
  _, doubtful = guard(lag, tonumber(clock))
end
ends, fence = tonumber(ends), tonumber(fence)
if record ~= nil and record.token == nil and record.fence == fence then
  -- An operator may have ended the claim in between: what was used can then no longer be told.
  return { (record.clean or ends == nil) and 'released' or 'lost' }
end
if record == nil or record.token ~= token or record.fence ~= fence then
  return { 'lost' }
end
local use = readUse(workerId)
expectFiled(record)
expect('hash', tokenKey)
expect('list', hostList(record.ip))

local clean = false
-- What was granted under another era is not what is stored: how far it reached nobody knows here. Nor is it where a renewal raised the
-- window to this era, and its holder never heard.
if ends ~= nil and not doubtful and record.era == meta.era and not beforeEra(record, ends) then
  local timestamp, sequence, begin = tonumber(lastTimestamp), tonumber(lastSequence), tonumber(recentFrom)
  if timestamp ~= nil and beforeEra(record, timestamp) then
    timestamp = nil
  end
  local least = math.max(record.from, (record.lastTimestamp or 0) + 1)
  if
    not (ends % 1 == 0 and ends >= least and ends <= record['until'])
    or (timestamp ~= nil and not (timestamp >= record.floor and timestamp < ends))
    or (begin ~= nil and not (begin >= record.floor and begin <= ends))
  then
    return listed({ 'refused', info() }, record)
  end
  clean = true
  record['until'], record.floor = ends, begin or ends
  record.recentFrom, record.recent = begin, recent
  local known, highestKnown = record.lastTimestamp or -1, record.lastSequence or -1
  if timestamp ~= nil and (timestamp > known or (timestamp == known and sequence > highestKnown)) then
    record.lastTimestamp, record.lastSequence = timestamp, sequence
  end
else
  record.recentFrom = nil
end
record.token, record.clean, record.seenClock = nil, clean, tonumber(clock)
record.releasedAt, record.ended = now, 'released'
-- For those who look at nothing else it is taken until its window has passed; and for good where they have ever been seen.
local vacates = record['until'] <= now and not meta.beside and not record.vacated and use == useOf(record)
record.vacated = record.vacated or vacates or nil
write(record)
index(record)
redis.call('HDEL', tokenKey, token)
leave(record)
if vacates then
  redis.call('DEL', prefix .. 'use:' .. workerId)
end
return { 'released' }
