-- Raises the end and the checkpoint of a claim that the caller still holds: `decideRenewal` in rule/verdict.ts.
--
-- answers: renewed, and without names: clock from until turn (false: there is none) receipt ('': there is none)
--   | lost reason doubtFrom? doubtUntil? | refused info record? | quarantine until clock era quarantineEnd maxClockSkew namespace
-- include: namespace quarantine records marks receipts

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local fence = tonumber(ARGV[2]) -- of the claim
local token = ARGV[3] -- of the claim, as a hash
local clock = tonumber(ARGV[4]) -- the holder's, Unix ms
local window = tonumber(ARGV[5]) -- its length, ms
local maxLag = tonumber(ARGV[6]) -- how much longer a quarantine lasts, ms
local mark = ARGV[7] -- random digits, for an era that begins
local lastTimestamp = tonumber(ARGV[8]) -- the newest tick that was used, Unix ms; '': none
local lastSequence = tonumber(ARGV[9]) -- the highest sequence in it
local turns = ARGV[10] -- turns that the record may have: the acknowledged one and those sent since, with a space around each
local nextTurn = ARGV[11] -- the turn after this renewal; '': the holder sends none
local receiptText = ARGV[12] -- of the last answer; '': there is none

local _, isDoubtful = checkQuarantine(maxLag, mark, clock)
if isDoubtful then
  return { 'refused', info() }
end
local record, text = load(workerId)
local receipt = otherReceipt(receiptText, record, workerId, fence, token)
local isEvidence = receipt ~= nil and isForgotten(receipt, record)
if isEvidence then
  actOnEvidence(receipt, maxLag, mark)
end

local holds = record ~= nil and record.token == token and record.fence == fence
if not holds and receipt ~= nil then
  if not isEvidence then
    return lostBeside(receipt, record, fence, receipt['until'])
  end
  if isDoubled(record, clock) then
    return lostForgotten(receipt, record, clock)
  end
end
if now < meta.opensAt then
  return inQuarantine()
end
if
  not (window % 1 == 0 and window >= 1 and window <= meta.maxWindow)
  or not (math.abs(clock - now) <= meta.maxClockSkew)
then
  return { 'refused', info() }
end
if not holds then
  return isEvidence and lostForgotten(receipt, record, clock) or lostTo(record, fence)
end
reachReceipt(receipt, record)
-- A program without windows has the worker ID, or may have it. From now on it would make the same IDs.
if record.vacated or readUse(workerId) ~= useOf(record) then
  noteBeside()
  return { 'lost', 'reason', 'taken' }
end

local function renewed()
  return { 'renewed', now, record.from, record['until'], record.turn or false, receiptOf(record) }
end

local isOlder = record.era ~= meta.era
if not isOlder then
  if not isTurnOf(record, turns) then
    return { 'lost', 'reason', 'cloned' }
  end
  -- `isRepeat` in rule/turn.ts.
  if record.turn ~= nil and record.turn == nextTurn and record['until'] > math.max(clock, now) then
    -- The first answer may be missing because the write did not reach the required replicas.
    expectIndexes(record.host)
    write(record)
    index(record)
    return renewed()
  end
end
if lastTimestamp ~= nil and isBeforeEra(record, lastTimestamp) then
  lastTimestamp = nil
end
if lastTimestamp ~= nil and not (lastTimestamp >= record.knownFrom and lastTimestamp < record['until']) then
  return listed({ 'refused', info() }, record)
end
expectIndexes(record.host)
local note = isOlder and historyOf(workerId)

-- From here on, only the holder's own memory counts.
record.recentFrom = nil
if note then
  -- The window from before the quarantine is closed for good. It was used, so it goes into the history.
  note(record, text)
  record.continuedFrom = nil
  record.era = meta.era
  record.from = math.max(record.from, meta.opensAt)
  record.knownFrom = record.from
end
record['until'] = math.max(record['until'], math.max(clock, now) + window)
record.seenClock = clock
record.renewals = math.max(record.renewals or 0, receipt and receipt.renewals or 0) + 1
record.turn = nextTurn ~= '' and nextTurn or record.turn
advance(record, lastTimestamp, lastSequence)
write(record)
index(record)
return renewed()
