-- Where this dialect differs from ../common/: the texts of names in braces, and statements.

-- name: {clock}
floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: {limit}
LIMIT :limit

-- name: meta.exists
SELECT count(*)::int AS present FROM pg_catalog.pg_class WHERE oid = to_regclass(:table_name);

-- name: meta.schema
-- The schema with the tables, or the one in which they would be made.
SELECT coalesce(
  (SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(:table_name)),
  current_schema()
)::text AS schema_name;

-- name: meta.elsewhere
-- This includes schemas whose tables this user may not read.
SELECT n.nspname::text AS schema_name, format('%I.%I', n.nspname, c.relname)::text AS place
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = :table_name AND c.relkind IN ('r', 'p') AND c.oid IS DISTINCT FROM to_regclass(:own_name)::oid
ORDER BY 1
LIMIT 10;

-- name: meta.databases
-- The other databases that this user may connect to.
SELECT datname::text AS database_name FROM pg_catalog.pg_database
WHERE datname <> current_database() AND datallowconn AND NOT datistemplate AND has_database_privilege(oid, 'CONNECT')
ORDER BY 1
LIMIT 100;

-- name: meta.lock
-- Only one `init` runs at a time. The end of the transaction lets the next one go on.
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtext('snowlease'), hashtext(:table_name));

-- name: meta.unlock
SELECT 1 AS unlocked;

-- name: meta.lock-tables
-- The lock is taken at once or not at all, because all other sessions would wait after one that waits for it.
LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE NOWAIT;

-- name: meta.drop-tables
DROP TABLE {tables};

-- name: meta.unlock-tables
-- The end of the transaction unlocks them.
SELECT 1 AS unlocked;

-- name: history.add
INSERT INTO {history} (
  worker_id, fence, from_ms, until_ms, continued_from, host, ip, pid, instance, claimed_at, ended_at, ended_by, newest
) VALUES (
  :worker_id, :fence, :from_ms, :until_ms, :continued_from, :host, :ip, :pid, :instance, :claimed_at, :ended_at, :ended_by, :newest
)
ON CONFLICT (worker_id, fence) DO UPDATE SET
  from_ms = excluded.from_ms, until_ms = excluded.until_ms, continued_from = excluded.continued_from, host = excluded.host, ip = excluded.ip,
  pid = excluded.pid, instance = excluded.instance, claimed_at = excluded.claimed_at, ended_at = excluded.ended_at, ended_by = excluded.ended_by,
  newest = excluded.newest;
