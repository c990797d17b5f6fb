-- Looks for namespaces of this name in other databases of the server.
--
-- answers: looked databases (their numbers, separated by spaces)
-- include: namespace elsewhere

-- KEYS[1]: the prefix of the namespace's keys
local database = ARGV[1] -- of this connection; '': there are no others

return { 'looked', 'databases', table.concat(databasesElsewhere(database), ' ') }
