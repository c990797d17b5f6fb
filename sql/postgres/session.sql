-- A connection, its transactions, and what the server tells of itself.

-- name: open
-- A standby takes no writes, and cannot tell its timeline.
SELECT
  pg_is_in_recovery() AS standby,
  has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS tells_system,
  current_setting('server_encoding') AS encoding;

-- name: begin
-- Only for this transaction: behind a proxy the next one may run in another session.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
SET LOCAL lock_timeout = {timeout};
SET LOCAL statement_timeout = {timeout};
SET LOCAL idle_in_transaction_session_timeout = {timeout}

-- name: one-row
-- Fails where a statement does not change one row, and so do all behind it.
WITH changed AS ({statement} RETURNING 1) SELECT 1 / count(*) FROM changed

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: identity
-- An expression: which cluster this is, and its timeline, which a promotion or a recovery to a point in time changes.
(SELECT system_identifier FROM pg_control_system())::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)

-- name: identity-in-part
-- The same where this user may not ask for the cluster.
'/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)

-- name: touch
-- Changes nothing, and needs what a change does: a server that takes writes, its disk, and its standbys.
SELECT {clock} AS clock, pg_logical_emit_message(true, 'snowlease', '')::text AS written;

-- name: durability
SELECT
  current_setting('synchronous_standby_names') AS standbys,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes;
