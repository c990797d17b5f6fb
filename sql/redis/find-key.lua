-- Searches some of the server's keys for one that proves that the namespace exists: a key that only our scripts make, other than `meta` and
-- `unused`. Java processes make `use:N`, `pid:IP` and `lok:IP`.
--
-- answers: looked key? next? (the cursor to go on at)
-- include: namespace

-- KEYS[1]: the prefix of the namespace's keys
local cursor = ARGV[1] -- where to go on; '0': at the beginning

local ours = {
  window = true, resting = true, host = true, foreign = true, token = true, owners = true, history = true, prunable = true,
}

local found = redis.call('SCAN', cursor, 'MATCH', prefix .. '*', 'COUNT', 1000)
for _, key in ipairs(found[2]) do
  local name = string.sub(key, #prefix + 1)
  if ours[string.match(name, '^%a+')] or string.find(name, '^pid:lease@') then
    return { 'looked', 'key', key }
  end
end
if found[1] == '0' then
  return { 'looked' }
end
return { 'looked', 'next', found[1] }
