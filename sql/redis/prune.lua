local before, limit = unpack(ARGV)

-- Deletes claims from the history whose window ended before a time, those of a worker ID in their order, a batch at a time. The
-- last claim of a worker ID stays: it is its record.
--
-- pruned + count

before, limit = tonumber(before), tonumber(limit)
local prunable, count = prefix .. 'prunable', 0

local function endOf(key, text)
  local record = unpacked(key, text)
  return record.reopened or record['until']
end

local till = '(' .. string.format('%.0f', before)
for _, n in ipairs(read(prunable, redis.pcall('ZRANGEBYSCORE', prunable, '-inf', till, 'LIMIT', 0, limit))) do
  local key = prefix .. 'history:' .. n
  local found = read(key, redis.pcall('ZRANGE', key, 0, limit - count))
  local ended = 0
  while count < limit and found[ended + 1] and endOf(key, found[ended + 1]) < before do
    ended, count = ended + 1, count + 1
  end
  if ended > 0 then
    redis.call('ZREMRANGEBYRANK', key, 0, ended - 1)
  end
  if found[ended + 1] then
    redis.call('ZADD', prunable, endOf(key, found[ended + 1]), n)
  else
    redis.call('ZREM', prunable, n)
  end
  if count == limit then
    break
  end
end
return { 'pruned', 'count', count }
