local cursor = unpack(ARGV)

-- Looks through some of the server's keys for one that only our scripts make in this namespace, beside `meta` and `unused`. Java
-- processes make `use:N`, `pid:IP` and `lok:IP`.
--
-- looked + key? next?

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
