-- Makes a namespace, or returns its fixed properties. The server may have forgotten a namespace that it does not have. So a namespace is
-- made in quarantine, unless an operator says that it never existed.
--
-- answers: ready info | exists key quarantineEnd? lasts? | elsewhere databases (their numbers: the caller may mean one of these)
-- include: namespace elsewhere quarantine unused

-- KEYS[1]: the prefix of the namespace's keys
local layout = ARGV[1] -- its fingerprint
local maxWindow = tonumber(ARGV[2]) -- ms; '': the default
local maxClockSkew = tonumber(ARGV[3]) -- ms; '': the default
local maxLag = tonumber(ARGV[4]) -- how much longer a quarantine lasts, ms
local isNew = ARGV[5] -- '1': an operator says that the namespace never existed
local found = ARGV[6] -- a key that contradicts this, from find-key.lua; '': there is none
local mark = ARGV[7] -- random digits for an era that begins
local id = ARGV[8] -- for a new namespace
local receiptKey = ARGV[9] -- for a new namespace
local database = ARGV[10] -- of this connection; '': there are no others, or an operator says that this is another registry

local elsewhere = refusalElsewhere(database)
if elsewhere then
  return elsewhere
end

if isNew == '1' then
  local first, last = rangeAt(0)
  local isUnused = first == 0 and last == highest
  if meta.layout == nil then
    isUnused = first == nil
  end
  if found ~= '' or not isUnused then
    return { 'exists', 'key', found ~= '' and found or unusedKey }
  end
  if meta.layout == nil and meta.replId == nil then
    beginEra(redis.call('INFO', 'replication'), 0, 0, mark)
  end
end
-- Before new limits are set, because windows that have not passed were granted under the old ones.
checkQuarantine(maxLag, mark)
if isNew == '1' and meta.quarantineEnd > 0 then
  return { 'exists', 'key', metaKey, 'quarantineEnd', meta.quarantineEnd, 'lasts', now < meta.opensAt and '1' or '0' }
end
if meta.layout == nil then
  makeNamespace(layout, maxWindow or usualMaxWindow, maxClockSkew or meta.maxClockSkew, id, receiptKey)
end
return { 'ready', info() }
