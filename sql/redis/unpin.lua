-- Puts a pinned worker ID back. Its window stays as it was; a worker ID that was never claimed is unused again.
--
-- answers: unpinned | absent (it was not pinned)
-- include: namespace quarantine records unused pins

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local maxLag = tonumber(ARGV[2]) -- how much longer a quarantine lasts, ms
local mark = ARGV[3] -- random digits for an era that begins

local record = load(workerId)
expectType('zset', unusedKey)
if meta.replId ~= nil then
  checkQuarantine(maxLag, mark)
end
if record == nil or record.pinned == nil then
  return { 'absent' }
end
local owner = record.owner
local pins = owner and pinsOf(owner)
if record.fence == 0 then
  redis.call('DEL', prefix .. 'window:' .. workerId)
  addRange(workerId, workerId)
else
  expectIndexes(record.host)
  record.pinned, record.owner = nil, nil
  if owner and record.token == nil then
    -- The owner may have used the worker ID without a lease since then, so no claim continues there.
    record.clean, record.recentFrom = false, nil
  end
  write(record)
  index(record)
end
if owner then
  setPins(owner, workerId, pins, false)
end
return { 'unpinned' }
