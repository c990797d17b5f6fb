-- The worker IDs without a record, as ranges in `unused`. Needs: namespace.

-- The first and last worker ID of the first unused range that ends at n or above it, or nil.
local function rangeAt(n)
  local found = read('ZRANGEBYSCORE', unusedKey, n, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return tonumber(found[1]), tonumber(found[2])
end

local function addRange(first, last)
  if first <= last then
    redis.call('ZADD', unusedKey, last, first)
  end
end

local function use(n)
  local first, last = rangeAt(n)
  if first ~= nil and first <= n then
    redis.call('ZREM', unusedKey, first)
    addRange(first, n - 1)
    addRange(n + 1, last)
  end
end

-- The longest window of a new namespace without given limits, ms: `defaultLimits` in rule/limits.ts.
local usualMaxWindow = 120000

-- Makes a namespace, with one range that contains every worker ID.
local function makeNamespace(layout, maxWindow, maxClockSkew, id, receiptKey)
  local empty = rangeAt(0) == nil
  meta.id, meta.layout, meta.maxWindow, meta.maxClockSkew = id, layout, maxWindow, maxClockSkew
  redis.call(
    'HSET', metaKey, 'id', id, 'receiptKey', receiptKey, 'layout', layout, 'maxWindow', maxWindow, 'maxClockSkew', maxClockSkew,
    'schema', '2'
  )
  if empty then
    addRange(0, highest)
  end
end
