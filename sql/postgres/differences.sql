-- Where this dialect differs from ../common/: the texts of names in braces, and statements.

-- name: {clock}
floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: {limit}
LIMIT :limit

-- name: meta.exists
SELECT count(*)::int AS present FROM pg_catalog.pg_class WHERE oid = to_regclass(:table_name);

-- name: meta.names
SELECT c.relname::text AS name FROM pg_catalog.pg_class c
WHERE left(c.relname, length(:table_name)) = :table_name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND pg_catalog.pg_table_is_visible(c.oid);

-- name: meta.lock
-- One `init` at a time; the transaction's end lets the next one go on.
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtext('snowlease'), hashtext(:table_name));

-- name: meta.unlock
SELECT 1 AS unlocked;
