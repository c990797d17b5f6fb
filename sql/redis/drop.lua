-- Drops a namespace, and notes under its name from when on one that is made there may grant: rule/drop.ts.
--
-- answers: dropped opensAt (0: nothing is noted) | absent | other info (another id) | beside | held info record | large count
--   | quarantine until clock
-- include: namespace quarantine records marks unused bands

-- KEYS[1]: the prefix of the namespace's keys
local id = ARGV[1] -- of the namespace to drop
local final = ARGV[2] -- '1': a trial's namespace, of which nothing stays
local most = tonumber(ARGV[3]) -- how many worker IDs with a record it may have: other clients wait meanwhile
local maxLag = tonumber(ARGV[4]) -- how much longer a quarantine lasts, ms
local mark = ARGV[5] -- random digits for the era of the note

if final ~= '1' then
  if meta.layout == nil then
    return { 'absent' }
  end
  local waits = checkQuarantine(maxLag, mark)
  if waits then
    return waits
  end
  if id ~= meta.id then
    return { 'other', info() }
  end
  if meta.beside then
    return { 'beside' }
  end
end

-- Worker IDs outside of the unused ranges.
local found, n = {}, 0
while n <= highest do
  local first, last = rangeAt(n)
  if first == nil then
    break
  end
  for each = n, first - 1 do
    table.insert(found, each)
    if #found > most then
      return { 'large', 'count', #found }
    end
  end
  n = math.max(n, last + 1)
end
if final ~= '1' and n <= highest then
  -- The end of the ranges is gone, and with it perhaps records.
  beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark)
  return inQuarantine()
end

local keys = { tokenKey, unusedKey, prefix .. 'foreign', prefix .. 'owners', prefix .. 'prunable' }
for _, band in ipairs(bands) do
  table.insert(keys, restingKey(band.name))
end
for _, each in ipairs(found) do
  local record = load(each)
  local use = foreignUse(each, record)
  if final ~= '1' and use then
    return { 'beside' }
  end
  if final ~= '1' and record ~= nil and (record['until'] > now or record.pinned ~= nil) then
    return listed({ 'held', info() }, record)
  end
  if record ~= nil and record.host ~= nil then
    table.insert(keys, hostList(record.ip))
    if record.band ~= nil then
      table.insert(keys, restingKey(record.band))
      table.insert(keys, hostKey(record.band, record.host))
    end
  end
  for _, name in ipairs({ 'window:', 'history:', 'use:' }) do
    table.insert(keys, prefix .. name .. each)
  end
end

-- First what makes it a namespace: where this script fails after that, records stay, and claims go on behind them.
if final == '1' then
  redis.call('DEL', metaKey)
else
  local isFresh = #found == 0 and meta.opensAt == 0 and meta.quarantineEnd == 0
  beginQuarantine(redis.call('INFO', 'replication'), maxLag, mark)
  redis.call('HSET', metaKey, 'droppedLayout', isFresh and '' or meta.layout)
  redis.call('HDEL', metaKey, 'id', 'receiptKey', 'layout', 'maxWindow', 'maxClockSkew', 'bands', 'schema')
end
for _, key in ipairs(keys) do
  redis.call('DEL', key)
end
return { 'dropped', 'opensAt', final == '1' and 0 or meta.opensAt }
