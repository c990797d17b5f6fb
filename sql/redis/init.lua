local layout, maxWindow, maxClockSkew, lag = unpack(ARGV)

-- Makes a namespace, on an administrator's word that nothing of it is alive; or tells what is fixed for it.
--
-- ready + layout maxWindow maxClockSkew clock

local function untouched()
  local first, last = rangeAt(0)
  return first == nil or (first == 0 and last == highest)
end

-- What may have been forgotten here is all of it, and that is what the administrator speaks of.
if meta.layout == nil and untouched() then
  beginEra(redis.call('INFO', 'replication'), 0)
end
-- Before new limits are set: the windows that may be out there were granted under others.
guard(lag)
if meta.layout == nil then
  makeNamespace(layout, tonumber(maxWindow) or meta.maxWindow, tonumber(maxClockSkew) or meta.maxClockSkew)
end
return { 'ready', info() }
