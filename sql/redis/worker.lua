-- Reads one worker ID.
--
-- answers: worker info use? (another program's mark) own? (its holder's mark) record | absent
-- include: namespace records marks

-- KEYS[1]: the prefix of the namespace's keys
local workerId = tonumber(ARGV[1])

return listedWorker({ 'worker', info() }, workerId) or { 'absent' }
