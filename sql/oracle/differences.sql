-- Where this dialect differs from ../common/: the texts of names in braces, and statements.

-- name: {clock}
-- From an instant with its zone, so that the session's zone does not matter. A statement reads the clock only once, even if it names the
-- clock several times.
(SELECT
  EXTRACT(DAY FROM c.since) * 86400000 + EXTRACT(HOUR FROM c.since) * 3600000 + EXTRACT(MINUTE FROM c.since) * 60000
    + FLOOR(EXTRACT(SECOND FROM c.since) * 1000)
FROM (SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) - TIMESTAMP '1970-01-01 00:00:00' AS since FROM dual) c)

-- name: {limit}
FETCH FIRST :limit ROWS ONLY

-- name: meta.exists
-- A synonym for the table counts, too.
SELECT CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END AS present
FROM all_objects
WHERE object_name = UPPER(:table_name)
  AND object_type IN ('TABLE', 'VIEW', 'SYNONYM')
  AND owner IN (SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA'), 'PUBLIC');

-- name: meta.schema
SELECT SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') AS schema_name FROM dual;

-- name: meta.elsewhere
-- In the schemas whose tables this user may read.
SELECT owner AS schema_name, '"' || owner || '".' || object_name AS place
FROM all_objects
WHERE object_name = UPPER(:table_name) AND object_type = 'TABLE' AND owner <> SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')
ORDER BY 1
FETCH FIRST 10 ROWS ONLY;

-- name: meta.databases
-- A session sees all databases that it can, so there are no others to connect to.
SELECT NULL AS database_name FROM dual WHERE 1 = 0;

-- name: meta.lock
-- Locks nothing, because a lock that stays after the commits of the schema's statements needs PL/SQL. Several processes may run each of
-- these statements at once, and again. The last one, which notes the version, takes effect once.
SELECT 1 AS locked FROM dual;

-- name: meta.unlock
SELECT 1 AS unlocked FROM dual;

-- name: history.add
MERGE INTO {history} h USING dual ON (h.worker_id = :worker_id AND h.fence = :fence)
WHEN MATCHED THEN UPDATE SET
  from_ms = :from_ms, until_ms = :until_ms, continued_from = :continued_from, host = :host, ip = :ip, pid = :pid, instance = :instance,
  claimed_at = :claimed_at, ended_at = :ended_at, ended_by = :ended_by, newest = :newest
WHEN NOT MATCHED THEN INSERT (
  worker_id, fence, from_ms, until_ms, continued_from, host, ip, pid, instance, claimed_at, ended_at, ended_by, newest
) VALUES (
  :worker_id, :fence, :from_ms, :until_ms, :continued_from, :host, :ip, :pid, :instance, :claimed_at, :ended_at, :ended_by, :newest
);
