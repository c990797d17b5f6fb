-- Claims of a worker ID, the newest first, whose window, continued part included, meets [from, until). The one that goes on is
-- its record.
--
-- workerId from until limit below (a fence: only older ones)
--
-- rows next? (the fence to go on below); then for each: its fields as a list | wrong-type

expectWorker(arg.workerId)
if wrongType then
  return wrongType
end

local from, till, limit, below = tonumber(arg.from), tonumber(arg['until']), tonumber(arg.limit), tonumber(arg.below)
local list, count = { 'rows' }, 0

local function add(row)
  local begin = tonumber(row.continuedFrom) or tonumber(row.from)
  if count < limit and tonumber(row['until']) > from and begin < till then
    local flat = {}
    for name, value in pairs(row) do
      table.insert(flat, name)
      table.insert(flat, value)
    end
    table.insert(list, flat)
    count = count + 1
  end
end

local record = read(tonumber(arg.workerId))
if record ~= nil and record.claimedAt ~= nil and record.ended == nil and record.fence < below then
  add({
    worker = arg.workerId, fence = int(record.fence), from = int(record.from), ['until'] = int(record['until']),
    host = record.host, ip = record.ip, pid = record.pid, instance = record.instance, claimedAt = int(record.claimedAt),
    continuedFrom = record.continuedFrom and int(record.continuedFrom) or nil,
  })
end
local page = 1000
local ids = redis.call('ZREVRANGEBYSCORE', key('history:' .. arg.workerId), '(' .. arg.below, '-inf', 'WITHSCORES', 'LIMIT', 0, page)
for i = 1, #ids, 2 do
  local entry = redis.call('XRANGE', key('history'), ids[i], ids[i])[1]
  if entry then
    add(pairsOf(entry[2]))
  end
end
if #ids == 2 * page and count < limit then
  table.insert(list, 'next')
  table.insert(list, ids[#ids])
end
return list
