-- Makes a namespace, on an administrator's word that nothing of it is alive; or tells what is fixed for it.
--
-- layout maxWindow? maxClockSkew? lag
--
-- ready layout maxWindow maxClockSkew | wrong-type

expect('zset', 'ids', 'unused')
if wrongType then
  return wrongType
end

if meta.layout == nil then
  local id = identity()
  -- What may have been forgotten here is all of it, and that is what the administrator speaks of.
  if redis.call('EXISTS', key('ids')) == 0 then
    redis.call('HDEL', key('meta'), 'quarantine')
    setMeta({ runId = id.runId, replId = id.replId, era = int((tonumber(meta.era) or 0) + 1) })
  end
  makeNamespace(arg.layout, arg.maxWindow or int(defaultMaxWindow), arg.maxClockSkew or int(defaultMaxClockSkew))
end
guard()
return { 'ready', info() }
