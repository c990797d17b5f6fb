-- Deletes claims from the history, one batch at a time. Claims of one worker ID are deleted in their order. The last claim of a worker ID
-- stays, because it is its record.
--
-- answers: pruned count
-- include: namespace records

-- KEYS[1]: the prefix of the namespace's keys
local before = tonumber(ARGV[1]) -- only claims whose window ended before this, Unix ms
local limit = tonumber(ARGV[2]) -- how many claims at most

local prunable, count = prefix .. 'prunable', 0

local function endOf(key, text)
  return closedUntil(unpackRecord(key, text))
end

local till = '(' .. string.format('%.0f', before)
for _, n in ipairs(read('ZRANGEBYSCORE', prunable, '-inf', till, 'LIMIT', 0, limit)) do
  local key = prefix .. 'history:' .. n
  local found = read('ZRANGE', key, 0, limit - count)
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
