-- Ends somebody's claim; the window stays closed, unless an operator vouches for it: core/window.ts, forced.
--
-- workerId force resetWindow lag
--
-- released until | absent | live + record | wrong-type

expectWorker(arg.workerId)
if wrongType then
  return wrongType
end
if meta.runId ~= nil then
  guard()
end

local record = read(tonumber(arg.workerId))
if record == nil or record.host == nil then
  return { 'absent' }
end
if arg.force ~= '1' and record.token ~= nil and record['until'] > now then
  return answer('live', record, info())
end
expectFiled(record)
if wrongType then
  return wrongType
end

local before = {}
for name, value in pairs(record) do
  before[name] = value
end
record.token, record.recentFrom, record.recent, record.clean = nil, nil, nil, '0'
record.releasedAt = record.releasedAt or now
if arg.resetWindow == '1' then
  record['until'] = math.min(record['until'], now)
end
local how = arg.resetWindow == '1' and 'reset' or 'forced'
noteEnd(record, how)
record.ended = how
write(record, before)
leave(record)
if arg.resetWindow == '1' and meta.beside == nil and redis.call('GET', key('use:' .. arg.workerId)) == useOf(record) then
  redis.call('DEL', key('use:' .. arg.workerId))
end
return { 'released', 'until', int(record['until']) }
