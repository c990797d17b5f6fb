-- A connection, its transactions, and what the server says about itself.

-- name: open
-- A standby accepts no writes, and cannot say its timeline.
SELECT
  pg_is_in_recovery() AS standby,
  has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS tells_system,
  current_setting('server_encoding') AS encoding;

-- name: begin
-- Only for this transaction, because a proxy may run the next one in another session.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('synchronous_commit', 'on', true)
WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
SET LOCAL lock_timeout = {timeout};
SET LOCAL statement_timeout = {timeout};
SET LOCAL idle_in_transaction_session_timeout = {timeout}

-- name: one-row
-- Fails if a statement does not change one row. Then all statements after it fail, too.
WITH changed AS ({statement} RETURNING 1) SELECT 1 / count(*) FROM changed

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: identity
-- An expression: the cluster, and its timeline, which a promotion or a recovery to a point in time changes.
(SELECT system_identifier FROM pg_control_system())::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)

-- name: identity-in-part
-- The same for a user who may not read the cluster's identifier.
'/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)

-- name: touch
-- Changes nothing, but needs what a change needs: a server that accepts writes, its disk, and its standbys.
SELECT {clock} AS clock, pg_logical_emit_message(true, 'snowlease', '')::text AS written;

-- name: durability
SELECT
  current_setting('synchronous_standby_names') AS standbys,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes;
