-- Namespaces of this name in other databases of the server. Needs: namespace.

-- The numbers of these databases: none on a server that lets a script see no other one. `own`: this one; '': there are no others.
local function databasesElsewhere(own)
  local found = {}
  local keyspace = own ~= '' and redis.pcall('INFO', 'keyspace')
  if type(keyspace) ~= 'string' then
    return found
  end
  for number in string.gmatch(keyspace, 'db(%d+):') do
    if number ~= own then
      local selected = redis.pcall('SELECT', number)
      if selected.err then
        break
      end
      if redis.pcall('HEXISTS', metaKey, 'layout') == 1 then
        table.insert(found, number)
      end
    end
  end
  redis.pcall('SELECT', own)
  return found
end

-- Whether nothing shows that this namespace was ever here.
local function isUnheardOf()
  return meta.layout == nil and meta.replId == nil
end
