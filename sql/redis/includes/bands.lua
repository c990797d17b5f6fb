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
  local function nameOf(a, b)
    return a == first and b == last and poolName or string.format('%.0f-%.0f', a, b)
  end
  local cut, at = {}, first
  local function add(a, b, filed, name)
    if a <= b then
      filed = math.min(math.max(filed, a), b + 1)
      table.insert(cut, { first = a, last = b, name = name or nameOf(a, b), filed = filed })
    end
  end
  for _, band in ipairs(bands) do
    local a, b = math.max(band.first, first), math.min(band.last, last)
    if a <= b then
      -- No worker ID between two bands has a record.
      add(at, a - 1, a)
      at = b + 1
    end
    add(band.first, math.min(band.last, first - 1), band.filed, band.name)
    add(a, b, band.filed, band.name)
    add(math.max(band.first, last + 1), band.last, band.filed, band.name)
  end
  add(at, last, last + 1)
  table.sort(cut, function(a, b)
    return a.first < b.first
  end)
  bands, bandsChanged = cut, bandsChanged or #cut > #bands

  for _, band in ipairs(bandsIn(first, last)) do
    for _, other in ipairs(bands) do
      if (other.last < first or other.first > last) and isMixed(band, other) then
        band.name, band.filed, bandsChanged = nameOf(band.first, band.last), band.first, true
      end
    end
  end
end

-- Whether a record is filed under another name than that of its band, and can be filed anew.
local function isMisfiled(record, name)
  if record == nil or record.band == nil or record.band == name then
    return false
  end
  expectIndexes(record.band, record.host)
  expectIndexes(name, record.host)
  return true
end

-- Files a record under the name of its band.
local function file(record, name)
  local before = { workerId = record.workerId, band = record.band, host = record.host }
  -- A record that is pinned or foreign is in no index.
  local isIndexed = redis.call('ZSCORE', restingKey(record.band), record.workerId)
  record.band = name
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
