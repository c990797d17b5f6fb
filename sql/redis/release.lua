-- Gives a worker ID back, and stores what its holder used: `released` in rule/window.ts.
--
-- answers: released | lost | refused info record
-- include: namespace quarantine records marks

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local fence = tonumber(ARGV[2]) -- of the claim
local token = ARGV[3] -- of the claim
local clock = tonumber(ARGV[4]) -- the holder's, Unix ms
local ends = tonumber(ARGV[5]) -- where the window closes, Unix ms; '': the holder does not know, and the window stays
local lastTimestamp = tonumber(ARGV[6]) -- the newest tick that was used, Unix ms; '': none
local lastSequence = tonumber(ARGV[7]) -- the highest sequence in it
local recentFrom = tonumber(ARGV[8]) -- where the recents begin, Unix ms; '': no claim can continue here
local recent = ARGV[9] -- the recents
local maxLag = tonumber(ARGV[10]) -- how much longer a quarantine lasts, ms

local record = load(workerId)
local doubtful = meta.replId ~= nil and select(2, checkQuarantine(maxLag, clock))
if record ~= nil and record.token == nil and record.fence == fence then
  -- It was released before; or an operator ended the claim, and what was used can no longer be stored.
  return { (record.clean or ends == nil) and 'released' or 'lost' }
end
if record == nil or record.token ~= token or record.fence ~= fence then
  return { 'lost' }
end
local use = expectEnd(record)

-- A window of another era may have reached further than this server remembers. The same holds where a renewal raised the window to this
-- era and its holder never received the answer.
local clean = ends ~= nil and not doubtful and record.era == meta.era and not isBeforeEra(record, ends)
if clean then
  if lastTimestamp ~= nil and isBeforeEra(record, lastTimestamp) then
    lastTimestamp = nil
  end
  local least = math.max(record.from, (record.lastTimestamp or 0) + 1)
  if
    not (ends % 1 == 0 and ends >= least and ends <= record['until'])
    or (lastTimestamp ~= nil and not (lastTimestamp >= record.knownFrom and lastTimestamp < ends))
    or (recentFrom ~= nil and not (recentFrom >= record.knownFrom and recentFrom <= ends))
  then
    return listed({ 'refused', info() }, record)
  end
  record['until'], record.knownFrom = ends, recentFrom or ends
  record.recentFrom, record.recent = recentFrom, recent
  advance(record, lastTimestamp, lastSequence)
else
  record.recentFrom = nil
end
record.token, record.clean, record.seenClock = nil, clean, clock
record.releasedAt, record.ended = now, 'released'
endClaim(record, token, use, record['until'] <= now)
return { 'released' }
