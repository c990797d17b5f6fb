local workerId, force, fence, resetWindow, lag = unpack(ARGV)

-- Ends somebody's claim; the window stays closed, unless an operator vouches for it: rule/window.ts, forced and forceRefusal.
--
-- released + until | absent | superseded + record | live + record

local record = load(tonumber(workerId))
if meta.replId ~= nil then
  guard(lag)
end
if record == nil or record.host == nil then
  return { 'absent' }
end
if fence ~= '' and tonumber(fence) ~= record.fence then
  return listed({ 'superseded', info() }, record)
end
if force ~= '1' and record.token ~= nil and record['until'] > now then
  return listed({ 'live', info() }, record)
end
local use = readUse(workerId)
expectFiled(record)
expect('hash', tokenKey)
expect('list', hostList(record.ip))

local token = record.token
local used = record.clean and record['until'] or (record.lastTimestamp or -1) + 1
record.token, record.recentFrom, record.clean = nil, nil, false
record.releasedAt = record.releasedAt or now
if resetWindow == '1' then
  -- How far a claim reached that had ended before is told by its history all the same.
  if record.ended ~= nil then
    record.reopened = record.reopened or record['until']
  end
  record['until'] = math.min(record['until'], math.max(used, now))
end
record.ended = record.ended or (resetWindow == '1' and 'reset' or 'forced')
local vacates = resetWindow == '1' and not meta.beside and not record.vacated and use == useOf(record)
record.vacated = record.vacated or vacates or nil
write(record)
index(record)
if token ~= nil then
  redis.call('HDEL', tokenKey, token)
end
leave(record)
if vacates then
  redis.call('DEL', prefix .. 'use:' .. workerId)
end
return { 'released', 'until', record['until'] }
