-- What a holder's receipt proves (rule/receipt.ts), and how a claim ended (rule/verdict.ts). Needs: namespace, quarantine.

-- Whether a server in the era `meta.era` has forgotten this one: eras rise.
local function isLaterEra(era)
  local number, present = eraNumber(era), eraNumber(meta.era)
  return number > present or (number == present and era ~= meta.era)
end

-- `isForgotten` in rule/receipt.ts. `record`: of the receipt's worker ID. Each renewal passes here, and few receipts are evidence: what
-- only evidence needs of a receipt is read in `actOnEvidence`.
local function isForgotten(id, era, fence, token, renewals, record)
  if (meta.id ~= nil and meta.id ~= id) or (era ~= meta.era and isLaterEra(era)) or record == nil or record.fence < fence then
    return true
  end
  if record.fence > fence then
    return false
  end
  return (record.token ~= nil and record.token ~= token) or (record.renewals or 0) < renewals
end

-- What a receipt says of the window. `limits`: of the namespace, maxWindow and maxClockSkew with a space between them.
local function readReceipt(era, ends, limits)
  local maxWindow, maxClockSkew = string.match(limits, '^(%d+) (%d+)$')
  return { era = era, ['until'] = ends, maxWindow = tonumber(maxWindow), maxClockSkew = tonumber(maxClockSkew) }
end

-- Begins a quarantine where no present one covers the evidence: `isUncovered` in rule/receipt.ts. Returns the receipt.
local function actOnEvidence(era, ends, limits, maxLag, mark)
  local receipt = readReceipt(era, ends, limits)
  if era == meta.era or isLaterEra(era) or ends > meta.quarantineEnd then
    beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark, receipt)
  end
  return receipt
end

-- The record's window reaches at least to where its holder knows that it does: `withEndOf` in rule/verdict.ts. `ends`: of the receipt.
local function reachReceipt(ends, record)
  if ends ~= nil and record['until'] < ends then
    record['until'] = ends
  end
end

-- Whether other claims may use the same times as the holder of the receipt from now on: `isDoubled` in rule/verdict.ts.
local function isDoubled(record)
  return record ~= nil and record['until'] > now - meta.maxClockSkew
end

-- A loss, with the times that other claims may have used, too: `spanOf` in rule/verdict.ts.
local function lostInDoubt(reason, receipt, record)
  local from = receipt['until'] - receipt.maxWindow - receipt.maxClockSkew
  local ends = math.max(from, math.min(record['until'], receipt['until']))
  return { 'lost', 'reason', reason, 'doubtFrom', from, 'doubtUntil', ends }
end

-- Whether the record alone shows that another claim used times of the receipt's window: `overlapOf` in rule/verdict.ts. `fence`: of the
-- receipt.
local function overlaps(fence, receipt, record)
  if record == nil or record.fence < fence then
    return false
  end
  local isOther = record.fence > fence or record.token ~= nil
  return (isOther and record.from or record['until']) < receipt['until']
end

-- The answer to a holder whose claim this server has forgotten: `forgottenTo` in rule/verdict.ts. `fence`: of the receipt.
local function lostForgotten(receipt, fence, record)
  -- An old primary may not know yet that another one took over. The write shows whether the replicas still follow.
  redis.call('HSET', metaKey, 'era', meta.era)
  if not isDoubled(record) and not overlaps(fence, receipt, record) then
    return { 'lost', 'reason', 'forgotten' }
  end
  return lostInDoubt('forgotten', receipt, record)
end

-- The answer to a holder whose claim is over: `lostTo` in rule/verdict.ts.
local function lostTo(record, fence)
  local ended = record ~= nil and record.fence == fence and record.token == nil
  return { 'lost', 'reason', ended and 'released' or 'taken' }
end

-- Whether it is this holder's turn: `isTurnOf` in rule/turn.ts. `turns`: those that the record may have, with a space between them.
local function isTurnOf(record, turns)
  return record.turn == nil or string.find(' ' .. turns .. ' ', ' ' .. record.turn .. ' ', 1, true) ~= nil
end
