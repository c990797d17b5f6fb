-- Namespaces of this name in other databases of the server. Needs: namespace.

-- The numbers of these databases. None if the server does not let a script see other ones. `own`: this database; '': there are no others.
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

-- The answer of a script that would make the namespace although there are others of its name. Nil: the script may go on.
-- If anything shows that the
-- namespace was here, the script makes no second one.
local function refusalElsewhere(own)
  if meta.layout ~= nil or meta.replId ~= nil then
    return nil
  end
  local found = databasesElsewhere(own)
  if #found > 0 then
    return { 'elsewhere', 'databases', table.concat(found, ' ') }
  end
end
