local layout, maxWindow, maxClockSkew, lag, isNew, found = unpack(ARGV)

-- Makes a namespace, or tells what is fixed for it. What is not here may have been forgotten, so that a namespace is made in
-- quarantine. isNew: an operator's word that it never existed. found: a key of it that contradicts that, beside `meta` and `unused`.
--
-- ready + layout maxWindow maxClockSkew quarantine clock | stands + key quarantine?

if isNew == '1' then
  local first, last = rangeAt(0)
  local isUnused = first == 0 and last == highest
  if meta.layout == nil then
    isUnused = first == nil
  end
  if found or not isUnused then
    return { 'stands', 'key', found or unusedKey }
  end
  if meta.layout == nil and meta.replId == nil then
    beginEra(redis.call('INFO', 'replication'), 0)
  end
end
-- Before new limits are set: the windows that may be out there were granted under others.
guard(lag)
if isNew == '1' and meta.quarantine > 0 then
  return { 'stands', 'key', metaKey, 'quarantine', meta.quarantine }
end
if meta.layout == nil then
  makeNamespace(layout, tonumber(maxWindow) or meta.maxWindow, tonumber(maxClockSkew) or meta.maxClockSkew)
end
return { 'ready', info() }
