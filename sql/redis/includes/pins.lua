-- The worker IDs that are pinned for an address. Needs: namespace.

local ownersKey = prefix .. 'owners'

-- The worker IDs that are pinned for an address, with a space around each, or nil.
local function pinsOf(ip)
  return read('HGET', ownersKey, ip) or nil
end

-- Removes a worker ID from the ones that are pinned for an address, or adds it. `pins`: what `pinsOf` returned.
local function setPins(ip, n, pins, add)
  local others = string.gsub(pins or ' ', ' ' .. n .. ' ', ' ', 1)
  if add then
    redis.call('HSET', ownersKey, ip, others .. n .. ' ')
  elseif others == ' ' then
    redis.call('HDEL', ownersKey, ip)
  else
    redis.call('HSET', ownersKey, ip, others)
  end
end
