-- Ends a holder's claim. The window stays closed, unless an operator vouches for it: `forced` and `forceRefusal` in rule/window.ts.
--
-- answers: released until | absent | superseded (another claim stands) info record | live info record
-- include: namespace quarantine records marks

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local force = ARGV[2] -- '1': even if the window has not passed
local fence = tonumber(ARGV[3]) -- of the claim to end; '': any claim
local resetWindow = ARGV[4] -- '1': the operator knows that no holder is left, so the window ends now
local maxLag = tonumber(ARGV[5]) -- how much longer a quarantine lasts, ms
local mark = ARGV[6] -- random digits for an era that begins

local record = load(workerId)
if meta.replId ~= nil then
  checkQuarantine(maxLag, mark)
end
if record == nil or record.host == nil then
  return { 'absent' }
end
if fence ~= nil and fence ~= record.fence then
  return listed({ 'superseded', info() }, record)
end
if force ~= '1' and record.token ~= nil and record['until'] > now then
  return listed({ 'live', info() }, record)
end
local use = expectEnd(record)

local token = record.token
local used = record.clean and record['until'] or (record.lastTimestamp or -1) + 1
record.token, record.recentFrom, record.clean = nil, nil, false
record.releasedAt = record.releasedAt or now
if resetWindow == '1' then
  -- The history still shows how far a claim reached that had ended before.
  if record.ended ~= nil then
    record.reopened = closedUntil(record)
  end
  record['until'] = math.min(record['until'], math.max(used, now))
end
record.ended = record.ended or (resetWindow == '1' and 'reset' or 'forced')
endClaim(record, token, use, resetWindow == '1')
return { 'released', 'until', record['until'] }
