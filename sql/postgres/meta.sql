-- Statements that ../common/meta.sql cannot say in this dialect.

-- name: read
SELECT
  name, value, version,
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS clock,
  {identity} AS identity
FROM {meta};

-- name: exists
-- Whether the tables were ever made.
SELECT count(*)::int AS present FROM pg_catalog.pg_class WHERE oid = to_regclass(:table_name);

-- name: lock
-- One `init` at a time; the transaction's end lets the next one go on.
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtext('snowlease'), hashtext(:table_name));

-- name: unlock
SELECT 1 AS unlocked;
