-- What a holder's receipt proves (rule/receipt.ts), and how a claim ended (rule/verdict.ts). Needs: namespace, quarantine, records, marks.

-- Whether a server in the era `meta.era` has forgotten this era. Numbers of eras rise.
local function isLaterEra(era)
  local number, present = eraNumber(era), eraNumber(meta.era)
  return number > present or (number == present and era ~= meta.era)
end

-- The text of the receipt for a record: `receiptOf` in rule/receipt.ts. '' if there is none.
local function receiptOf(record)
  if not (meta.id and meta.era and record.token) then
    return ''
  end
  return string.format(
    '1.%s.%s.%d.%d.%s.%d.%d.%d.%d', meta.id, meta.era, record.workerId, record.fence, record.token, record.renewals or 0,
    record['until'], meta.maxWindow, meta.maxClockSkew
  )
end

-- The receipt with this text. Nil for a text of another form: `readReceipt` in rule/receipt.ts.
local function readReceipt(text)
  local id, number, mark, workerId, fence, token, renewals, ends, maxWindow, maxClockSkew = string.match(
    text, '^1%.([%da-f]+)%.(%d+)%-([%da-f]+)%.(%d+)%.(%d+)%.([%w_-]+)%.(%d+)%.(%d+)%.(%d+)%.(%d+)$'
  )
  if id == nil or #id > 64 or #mark > 64 or #token > 128 then
    return nil
  end
  local most = { number, 8.64e15, workerId, highest, fence, highest, renewals, highest, ends, 8.64e15, maxWindow, 1e12, maxClockSkew, 1e12 }
  for i = 1, #most, 2 do
    if #most[i] > 16 or tonumber(most[i]) > most[i + 1] then
      return nil
    end
  end
  return {
    id = id, era = number .. '-' .. mark, workerId = tonumber(workerId), fence = tonumber(fence), token = token,
    renewals = tonumber(renewals), ['until'] = tonumber(ends), maxWindow = tonumber(maxWindow), maxClockSkew = tonumber(maxClockSkew),
  }
end

-- The receipt with this text, if it belongs to this claim: `receiptIn` in rule/verdict.ts. Nil for the receipt of the record itself, which
-- proves nothing new. Most receipts are of this kind, so these are not parsed.
local function otherReceipt(text, record, workerId, fence, token)
  if record ~= nil and text == receiptOf(record) then
    return nil
  end
  local receipt = readReceipt(text)
  local isOfClaim = receipt ~= nil and receipt.workerId == workerId and receipt.fence == fence and receipt.token == token
  return isOfClaim and receipt or nil
end

-- `isForgotten` in rule/receipt.ts. `record`: the record of the receipt's worker ID.
local function isForgotten(receipt, record)
  if (meta.id ~= nil and meta.id ~= receipt.id) or isLaterEra(receipt.era) or record == nil or record.fence < receipt.fence then
    return true
  end
  if record.fence > receipt.fence then
    return false
  end
  return (record.token ~= nil and record.token ~= receipt.token) or (record.renewals or 0) < receipt.renewals
end

-- Begins a quarantine if the present one does not cover the evidence: `isUncovered` in rule/receipt.ts.
local function actOnEvidence(receipt, maxLag, mark)
  -- An operator may have decided about a namespace before anything proved that it exists. That decision does not count for this one, so
  -- another era begins.
  local isNews = meta.layout == nil and not meta.proved
  if isNews or receipt.era == meta.era or isLaterEra(receipt.era) or receipt['until'] > meta.quarantineEnd then
    beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark, receipt)
  end
end

-- Extends the record's window to at least the end that its holder knows: `withEndOf` in rule/verdict.ts.
local function reachReceipt(receipt, record)
  if receipt ~= nil and record['until'] < receipt['until'] then
    record['until'] = receipt['until']
  end
end

-- Whether other claims may use the same times as the holder of the receipt from now on: `isDoubled` in rule/verdict.ts.
-- `clock`: the holder's.
local function isDoubled(record, clock)
  return record ~= nil and record['until'] > math.min(now - meta.maxClockSkew, clock)
end

-- A loss, with the times that other claims may also have used: `spanOf` in rule/verdict.ts. `ends`: the end of what the holder may have
-- used. Nil: the end of its window.
local function lostInDoubt(reason, receipt, record, ends)
  local from = receipt['until'] - receipt.maxWindow - receipt.maxClockSkew
  local last = math.min(record['until'], ends or receipt['until'])
  if from >= last then
    from = math.min(record.from, last)
  end
  return { 'lost', 'reason', reason, 'doubtFrom', from, 'doubtUntil', last }
end

-- Whether the record alone shows that another claim used times of the receipt's window: `overlapOf` in rule/verdict.ts.
local function overlaps(receipt, record, ends)
  if record == nil or record.fence < receipt.fence then
    return false
  end
  local isOther = record.fence > receipt.fence or record.token ~= nil
  return (isOther and record.from or record['until']) < (ends or receipt['until'])
end

-- The answer to a holder whose claim this server has forgotten: `forgottenTo` in rule/verdict.ts.
local function lostForgotten(receipt, record, clock)
  -- An old primary may not know yet that another server took over. This write shows whether the replicas still follow.
  redis.call('HSET', metaKey, 'era', meta.era)
  if not isDoubled(record, clock) and not overlaps(receipt, record) then
    return { 'lost', 'reason', 'forgotten' }
  end
  return lostInDoubt('forgotten', receipt, record)
end

-- The answer to a holder whose claim is over: `lostTo` in rule/verdict.ts.
local function lostTo(record, fence)
  local ended = record ~= nil and record.fence == fence and record.token == nil
  return { 'lost', 'reason', ended and 'released' or 'taken' }
end

-- The answer to a holder whose claim is over, without evidence. Closes the window if other claims may have used the same times:
-- `lostBeside` in rule/verdict.ts. `ends`: the end of what the holder may have used.
local function lostBeside(receipt, record, fence, ends)
  local answer = lostTo(record, fence)
  if not overlaps(receipt, record, ends) then
    return answer
  end
  answer = lostInDoubt(answer[3], receipt, record, ends)
  if record.token ~= nil or (not record.clean and record['until'] >= ends) then
    return answer
  end
  local use = expectEnd(record)
  record.recentFrom, record.clean = nil, false
  record.ended = record.ended or 'forced'
  record['until'] = math.max(record['until'], ends)
  endClaim(record, nil, use, false)
  return answer
end

-- Whether it is this holder's turn: `isTurnOf` in rule/turn.ts. `turns`: the turns that the record may have, with a space around each.
local function isTurnOf(record, turns)
  return record.turn == nil or string.find(turns, ' ' .. record.turn .. ' ', 1, true) ~= nil
end
