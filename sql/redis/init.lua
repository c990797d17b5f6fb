-- Makes a namespace, on an administrator's word that nothing of it is alive; or tells what is fixed for it.
--
-- layout maxWindow? maxClockSkew? lag
--
-- ready layout maxWindow maxClockSkew | wrong-type

expect('zset', 'ids', 'unused')
if wrongType then
  return wrongType
end

-- What may have been forgotten here is all of it, and that is what the administrator speaks of.
if meta.layout == nil and redis.call('EXISTS', key('ids')) == 0 then
  redis.call('HDEL', key('meta'), 'quarantine')
  beginEra(identity(), nil)
end
-- Before new limits are set: the windows that may be out there were granted under others.
guard()
if meta.layout == nil then
  makeNamespace(arg.layout, arg.maxWindow or int(defaultMaxWindow), arg.maxClockSkew or int(defaultMaxClockSkew))
end
return { 'ready', info() }
