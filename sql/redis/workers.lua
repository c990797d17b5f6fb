-- Lists worker IDs that have a record, or another program's mark: one page, in ascending order except for the marks.
--
-- answers: page clock next? row... (use? own? record, as in worker.lua)
-- include: namespace records marks

-- KEYS[1]: the prefix of the namespace's keys
local after = tonumber(ARGV[1]) -- only worker IDs above this one
local limit = tonumber(ARGV[2]) -- how many worker IDs to look at, at most
local foreignLast = tonumber(ARGV[3]) -- the highest worker ID at which to look for another program's mark

-- A worker ID outside of the unused ranges has a record, or belonged to another program when a claim met it.
local found, isFound, n, full = {}, {}, after + 1, false
local ranges = read('ZRANGEBYSCORE', unusedKey, n, '+inf', 'WITHSCORES', 'LIMIT', 0, limit + 1)
for i = 1, #ranges, 2 do
  local first, last = tonumber(ranges[i]), tonumber(ranges[i + 1])
  while n < first and not full do
    table.insert(found, n)
    isFound[n] = true
    n, full = n + 1, #found == limit
  end
  n = math.max(n, last + 1)
end

local last = full and found[#found] or nil
local list = listed({ 'page', 'clock', now }, { next = last })
for each = after + 1, math.min(foreignLast, last or foreignLast) do
  if not isFound[each] and redis.call('EXISTS', prefix .. 'use:' .. each) == 1 then
    table.insert(found, each)
  end
end
for _, each in ipairs(found) do
  table.insert(list, listedWorker({}, each))
end
return list
