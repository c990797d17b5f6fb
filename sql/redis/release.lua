-- Releases a worker ID, and stores what its holder used: `decideRelease` in rule/verdict.ts.
--
-- answers: released | lost reason doubtFrom? doubtUntil? | refused info record
-- include: namespace quarantine records marks receipts

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local fence = tonumber(ARGV[2]) -- of the claim
local token = ARGV[3] -- of the claim, as a hash
local clock = tonumber(ARGV[4]) -- the holder's, Unix ms
local ends = tonumber(ARGV[5]) -- where the window closes, Unix ms; '': the holder does not know, and the window stays
local lastTimestamp = tonumber(ARGV[6]) -- the newest tick that was used, Unix ms; '': none
local lastSequence = tonumber(ARGV[7]) -- the highest sequence in it
local recentFrom = tonumber(ARGV[8]) -- where the recents begin, Unix ms; '': no claim can continue here
local recent = ARGV[9] -- the recents
local maxLag = tonumber(ARGV[10]) -- how much longer a quarantine lasts, ms
local mark = ARGV[11] -- random digits for an era that begins
local turns = ARGV[12] -- turns that the record may have, with a space around each
local receiptText = ARGV[13] -- of the last answer; '': there is none

if receiptText ~= '' and meta.layout == nil and meta.replId == nil then
  -- The namespace is gone.
  return { 'lost', 'reason', 'forgotten' }
end

local record = load(workerId)
local isDoubtful = meta.replId ~= nil and select(2, checkQuarantine(maxLag, mark, clock))
local receipt = otherReceipt(receiptText, record, workerId, fence, token)
local isEvidence = receipt ~= nil and not isDoubtful and isForgotten(receipt, record)
if isEvidence then
  actOnEvidence(receipt, maxLag, mark)
end
if record == nil or record.token ~= token or record.fence ~= fence then
  local wasEnded = record ~= nil and record.token == nil and record.fence == fence
  if isEvidence and not wasEnded then
    return lostForgotten(receipt, record, clock)
  end
  if receipt ~= nil and not isEvidence and not isDoubtful then
    local answer = lostBeside(receipt, record, fence, math.min(receipt['until'], ends or receipt['until']))
    if answer[4] ~= nil then
      return wasEnded and ends == nil and { 'released' } or answer
    end
  end
  -- If it was not released before, an operator ended the claim meanwhile, and the holder's use can no longer be stored.
  return wasEnded and (record.clean or ends == nil) and { 'released' } or lostTo(record, fence)
end
reachReceipt(receipt, record)
if record.repeated and ends == record.from then
  -- One answer to a claim that was sent twice revokes it. The holder may follow the other answer.
  ends = nil
end
-- A server that has forgotten renewals does not know the holder's turn.
local knowsTurn = not isDoubtful and not isEvidence and record.era == meta.era
if knowsTurn and not isTurnOf(record, turns) then
  return { 'lost', 'reason', 'cloned' }
end
local use = expectEnd(record)

-- A window of another era may have reached further than this server remembers. The same is true if a renewal moved the window to this era
-- and its holder never received the answer.
local clean = ends ~= nil and knowsTurn and not isBeforeEra(record, ends)
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
