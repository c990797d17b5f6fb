-- Gives a worker ID back, and stores what was used: core/window.ts, released.
--
-- workerId fence token clock until? lastTimestamp? lastSequence? recentFrom? recent? lag
--
-- released | lost | refused + record | wrong-type

expectWorker(arg.workerId)
if wrongType then
  return wrongType
end
if meta.runId ~= nil then
  guard()
end

local record = read(tonumber(arg.workerId))
if record ~= nil and record.token == nil and record.fence == tonumber(arg.fence) then
  -- An operator may have ended the claim in between: what was used can then no longer be told.
  return { (record.clean == '1' or arg['until'] == nil) and 'released' or 'lost' }
end
if record == nil or record.token ~= arg.token or record.fence ~= tonumber(arg.fence) then
  return { 'lost' }
end
expectFiled(record)
if wrongType then
  return wrongType
end

local before = {}
for name, value in pairs(record) do
  before[name] = value
end
record.token, record.recentFrom, record.recent = nil, nil, nil
record.seenClock, record.releasedAt = tonumber(arg.clock), now
record.clean = '0'

-- What was granted under another era is not what is stored: how far it reached nobody knows here.
if arg['until'] ~= nil and before.era == meta.era then
  local ends, timestamp, begin = tonumber(arg['until']), tonumber(arg.lastTimestamp), tonumber(arg.recentFrom)
  if timestamp ~= nil and beforeEra(before, timestamp) then
    timestamp = nil
  end
  local least = math.max(before.from, (before.lastTimestamp or 0) + 1)
  if
    not (ends % 1 == 0 and ends >= least and ends <= before['until'])
    or (timestamp ~= nil and not (timestamp >= before.floor and timestamp < ends))
    or (begin ~= nil and not (begin >= before.floor and begin <= ends))
  then
    return answer('refused', before, info())
  end
  record['until'], record.clean = ends, '1'
  record.floor = begin or ends
  record.recentFrom, record.recent = begin, arg.recent
  if timestamp ~= nil and timestamp >= (before.lastTimestamp or -1) then
    local sequence = tonumber(arg.lastSequence)
    if timestamp > (before.lastTimestamp or -1) or sequence > (before.lastSequence or -1) then
      record.lastTimestamp, record.lastSequence = timestamp, sequence
    end
  end
end
noteEnd(record, 'released')
record.ended = 'released'
write(record, before)
leave(record)
-- For those who look at nothing else it is taken until its window has passed; and for good where they have ever been seen.
if record['until'] <= now and meta.beside == nil and redis.call('GET', key('use:' .. arg.workerId)) == useOf(record) then
  redis.call('DEL', key('use:' .. arg.workerId))
end
return { 'released' }
