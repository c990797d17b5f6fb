-- Bands: worker IDs whose records are filed under one name in the indexes (registries/bands.ts says why). `meta` stores each band as
-- `first:last:name:filed`: the records of its worker IDs below `filed` are filed under its name, the others perhaps under an older one. '*' is
-- the name of a band that was made for the whole layout. Needs: namespace, records, unused.

local bands, bandsChanged = {}, false
for a, b, name, filed in string.gmatch(meta.bands, '(%d+):(%d+):(%S-):(%d+)') do
  table.insert(bands, { first = tonumber(a), last = tonumber(b), name = name, filed = tonumber(filed) })
end

local function writeBands()
  if bandsChanged then
    local list = {}
    for i, band in ipairs(bands) do
      list[i] = string.format('%.0f:%.0f:%s:%.0f', band.first, band.last, band.name, band.filed)
    end
    redis.call('HSET', metaKey, 'bands', table.concat(list, ' '))
    bandsChanged = false
  end
end

local function bandAt(n)
  for _, band in ipairs(bands) do
    if n >= band.first and n <= band.last then
      return band
    end
  end
end

-- The bands that lie in a pool.
local function bandsIn(first, last)
  local inside = {}
  for _, band in ipairs(bands) do
    if band.first >= first and band.last <= last then
      table.insert(inside, band)
    end
  end
  return inside
end

-- Whether records of the other band may be filed under this band's name.
local function isMixed(band, other)
  if band.name == other.name then
    return true
  end
  local a, b = string.match(band.name, '^(%d+)-(%d+)$')
  return other.filed <= other.last and (a == nil or (tonumber(a) <= other.first and tonumber(b) >= other.last))
end

-- Cuts the bands at the limits of a pool, so that the pool consists of whole bands: `cutBands` in registries/bands.ts.
local function cutBands(first, last, poolName)
  local inside, outside = {}, {}
  for _, band in ipairs(bands) do
    local begins = { band.first }
    for _, at in ipairs({ first, last + 1 }) do
      if at > band.first and at <= band.last then
        table.insert(begins, at)
      end
    end
    bandsChanged = bandsChanged or #begins > 1
    for i, a in ipairs(begins) do
      local b = (begins[i + 1] or band.last + 1) - 1
      local part = { first = a, last = b, name = band.name, filed = math.min(math.max(band.filed, a), b + 1) }
      table.insert(a >= first and b <= last and inside or outside, part)
    end
  end

  bands = outside
  local function add(a, b, name, filed)
    bandsChanged = bandsChanged or name == nil
    name = name or (a == first and b == last and poolName) or string.format('%.0f-%.0f', a, b)
    table.insert(bands, { first = a, last = b, name = name, filed = filed })
  end
  local at, others = first, #outside
  for _, band in ipairs(inside) do
    -- No worker ID between two bands has a record.
    if band.first > at then
      add(at, band.first - 1, nil, band.first)
    end
    local name, filed = band.name, band.filed
    for i = 1, others do
      if isMixed(band, outside[i]) then
        name, filed = nil, band.first
      end
    end
    add(band.first, band.last, name, filed)
    at = band.last + 1
  end
  if at <= last then
    add(at, last, nil, last + 1)
  end
  table.sort(bands, function(a, b)
    return a.first < b.first
  end)
end

-- Whether a record is filed under another name than that of its band, and can be filed anew.
local function isMisfiled(record, name)
  if record == nil or record.pool == nil or record.pool == name then
    return false
  end
  expectIndexes(record.pool, record.host)
  expectIndexes(name, record.host)
  return true
end

-- Files a record under the name of its band.
local function file(record, name)
  local before = { workerId = record.workerId, pool = record.pool, host = record.host }
  -- A record that is pinned or foreign is in no index.
  local isIndexed = redis.call('ZSCORE', restingKey(record.pool), record.workerId)
  record.pool = name
  write(record)
  unindex(before)
  if isIndexed then
    index(record)
  end
end

-- Files up to 128 records of these bands anew. Returns whether more are left.
local function fileSome(list)
  local band = nil
  for _, each in ipairs(list) do
    if each.filed <= each.last then
      band = each
      break
    end
  end
  if band == nil then
    return false
  end
  -- All are checked before the first write: where one is damaged, all stay where they are.
  local n, looked, misfiled = band.filed, 0, {}
  while n <= band.last and looked < 128 do
    local record = load(n)
    if isMisfiled(record, band.name) then
      table.insert(misfiled, record)
    end
    if record ~= nil then
      n = n + 1
    else
      local from, to = rangeAt(n)
      n = from ~= nil and from <= n and to + 1 or n + 1
    end
    looked = looked + 1
  end
  for _, record in ipairs(misfiled) do
    file(record, band.name)
  end
  band.filed = math.min(n, band.last + 1)
  bandsChanged = true
  writeBands()
  return band.filed <= band.last or band ~= list[#list]
end
