-- Lists claims of a worker ID, the newest first, whose window overlaps [from, to). The part that a window continues counts, too.
--
-- answers: page next? (the fence to go on below) row...
-- include: namespace records

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])
local from = tonumber(ARGV[2]) -- Unix ms
local to = tonumber(ARGV[3]) -- Unix ms
local limit = tonumber(ARGV[4]) -- how many claims at most
local below = tonumber(ARGV[5]) -- only claims with a lower fence

local list, count = { 'page' }, 0

local function add(record)
  local ends, begin = closedUntil(record), record.continuedFrom or record.from
  if count < limit and ends > from and begin < to then
    table.insert(list, listed({}, {
      workerId = record.workerId, fence = record.fence, from = record.from, ['until'] = ends,
      host = record.host, ip = record.ip, pid = record.pid, instance = record.instance, claimedAt = record.claimedAt,
      endedAt = record.ended and record.releasedAt, ['end'] = record.ended, continuedFrom = record.continuedFrom,
    }))
    count = count + 1
  end
end

local record = load(workerId)
if record ~= nil and record.claimedAt ~= nil and record.fence < below then
  add(record)
end
local page, key = 1000, prefix .. 'history:' .. workerId
local found = read('ZREVRANGEBYSCORE', key, '(' .. string.format('%.0f', below), '-inf', 'LIMIT', 0, page)
local last = nil
for _, text in ipairs(found) do
  last = unpackRecord(key, text)
  add(last)
end
return listed(list, { next = #found == page and count < limit and last.fence or nil })
