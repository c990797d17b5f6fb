-- Notices that this server may have forgotten windows that it acknowledged. Needs: namespace.
--
-- A server that was restarted, promoted or flushed may have forgotten windows. From the moment when a script notices this, nothing is
-- granted or renewed until every window that may ever have been granted has passed: until `quarantineEnd`. An operator can end this
-- earlier, at `opensAt`. Older records belong to an older era. No claim continues after them, and every window begins at `opensAt` or
-- later.

-- The `opensAt` of a namespace during its removal, and the first digits of an era whose name had a removed namespace: rule/era.ts.
local neverOpens, removedMark = 8640000000000000, 'de1e7ed'

-- The end of the windows of a removed namespace of this name, Unix ms. 0 if there was none.
local function forgottenUntil()
  local time = string.match(meta.era or '', '^%d+%-' .. removedMark .. string.rep('%x', 14))
  return time and tonumber(string.sub(time, -14), 16) or 0
end

-- The text of an era.
local function eraText(number, forgotten, digits)
  return string.format('%.0f-%s%s', number, forgotten > 0 and removedMark .. string.format('%014x', forgotten) or '', digits)
end

-- A field of the text that INFO returns.
local function field(text, name)
  local _, last = string.find(text, '\n' .. name .. ':', 1, true)
  return last and string.match(text, '^%x+', last + 1) or ''
end

-- How much data this process has received from a primary: if that grows, its earlier data is gone. And how often it got the command to be a
-- replica, or to be none: if that grows, another server may have been the primary meanwhile, without the knowledge of this one because a
-- link was cut. In a cluster, the epoch shows the same. CONFIG RESETSTAT sets these to 0, except the keys loaded last and the epoch.
local function received()
  local bytes = field(redis.call('INFO', 'stats'), 'total_net_repl_input_bytes')
  local keys = field(redis.call('INFO', 'persistence'), 'rdb_last_load_keys_loaded')
  local commands, told = redis.call('INFO', 'commandstats'), 0
  for _, name in ipairs({ 'replicaof', 'slaveof' }) do
    told = told + (string.match(commands, '\ncmdstat_' .. name .. ':calls=(%d+)') or 0)
  end
  if field(redis.call('INFO', 'cluster'), 'cluster_enabled') == '1' then
    told = told .. '/' .. field(redis.call('CLUSTER', 'INFO'), 'cluster_my_epoch')
  end
  return bytes .. '/' .. keys .. '/' .. told
end

-- The number at the begin of the text of an era. -1 if there is none.
local function eraNumber(era)
  return tonumber(string.match(era or '', '^%d+') or -1)
end

-- From now on, the data of this server counts as complete. Numbers of eras rise even if `meta` was lost meanwhile. `mark`: random digits,
-- because two copies of a server may begin an era in the same ms.
local function beginEra(replication, quarantineEnd, opensAt, mark, receipt)
  local number = math.max(eraNumber(meta.era), receipt and eraNumber(receipt.era) or -1)
  meta.replId = field(replication, 'master_replid')
  meta.era = eraText(math.max(now, number + 1), forgottenUntil(), mark)
  -- During its removal, a namespace stays sealed.
  meta.quarantineEnd, meta.opensAt = quarantineEnd, meta.opensAt == neverOpens and neverOpens or opensAt
  redis.call(
    'HSET', metaKey, 'runId', field(redis.call('INFO', 'server'), 'run_id'), 'replId', meta.replId, 'received', received(),
    'era', meta.era, 'quarantineEnd', quarantineEnd, 'opensAt', meta.opensAt
  )
  if receipt and meta.layout == nil then
    meta.proved = '1'
    redis.call('HSET', metaKey, 'proved', meta.proved)
  end
end

-- `nextEra` in rule/era.ts. `receipt`: the proof that the server forgot something. It may contain larger limits.
local function beginQuarantine(replication, maxLag, mark, receipt)
  local longest, widest = meta.maxWindow, meta.maxClockSkew
  if receipt then
    longest, widest = math.max(longest, receipt.maxWindow), math.max(widest, receipt.maxClockSkew)
  end
  local length = longest + 2 * widest + (maxLag or 0)
  -- An operator's decision about earlier quarantines still counts.
  local before = meta.opensAt ~= neverOpens and meta.opensAt or 0
  local opens = math.max(now + length, before, receipt and receipt['until'] or 0)
  beginEra(replication, math.max(opens, meta.quarantineEnd), opens, mark, receipt)
end

-- `namespace`: here, proved by a holder's receipt, or unknown. If an operator removed a namespace of this name: remade or removed.
local function inQuarantine()
  local known = meta.layout and 'here' or meta.proved and 'proved' or 'unknown'
  if meta.opensAt <= forgottenUntil() then
    known = meta.layout and 'remade' or 'removed'
  end
  return {
    'quarantine', 'until', meta.opensAt, 'clock', now, 'era', meta.era or '', 'quarantineEnd', meta.quarantineEnd,
    'maxClockSkew', meta.maxClockSkew, 'namespace', known,
  }
end

-- Begins a quarantine if this server may have forgotten something. The first result is the answer to give during a quarantine, or nil. The
-- second result is true if the server may have forgotten something, but `callerClock` contradicts its clock. Then no quarantine begins,
-- because by a clock that is ahead it would last too long.
--
-- A primary creates its replication ID when it starts or is promoted, and shares it only with its replicas. So a primary with the ID in
-- `meta` is the process that wrote it, and has been the primary since then.
local function checkQuarantine(maxLag, mark, callerClock)
  local replication = redis.call('INFO', 'replication')
  local primary = string.find(replication, '\nrole:master\r', 1, true)
  local own = primary and meta.replId and meta.replId ~= ''
    and string.find(replication, '\nmaster_replid:' .. meta.replId .. '\r', 1, true)
  if not own then
    local found = redis.call('HMGET', metaKey, 'runId', 'received')
    -- The same process has a new ID that it did not inherit: its first replica came, or its last one left. A process that was a replica
    -- meanwhile, and was promoted long ago, differs only in what it received.
    local same = primary and found[1] == field(redis.call('INFO', 'server'), 'run_id')
      and string.find(field(replication, 'master_replid2'), '^0*$') and found[2] == received()
    if same then
      redis.call('HSET', metaKey, 'replId', field(replication, 'master_replid'))
    elseif callerClock ~= nil and math.abs(callerClock - now) > meta.maxClockSkew then
      return nil, true
    else
      beginQuarantine(replication, maxLag, mark)
    end
  end
  if now < meta.opensAt then
    return inQuarantine()
  end
end

-- Whether a holder that stayed through the last quarantine reports a time before its end. That window is closed, and the server may have
-- forgotten how far it reached.
local function isBeforeEra(record, timestamp)
  return record.fence <= meta.opensAt and timestamp < meta.opensAt
end
