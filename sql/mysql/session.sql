-- A connection, its transactions, and what the server says about itself.

-- name: open
-- Some defaults of a server do not fit: it cuts texts that are too long, and keeps the locks of a lost client for hours. Other limits are
-- not meant for Snowlease: those for manual statements, for the rows that a program reads, and for checks during a load of data.
SET SESSION
  sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
  autocommit = 1,
  character_set_client = utf8mb4,
  character_set_connection = utf8mb4,
  character_set_results = utf8mb4,
  sql_select_limit = 18446744073709551615,
  sql_big_selects = 1,
  sql_safe_updates = 0,
  unique_checks = 1,
  innodb_lock_wait_timeout = {lock_timeout},
  wait_timeout = {idle_timeout};

-- name: isolation
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;

-- name: server
SELECT VERSION() AS server_version;

-- name: settings
-- How the server logs, and whether other servers also accept writes. Some servers do not know all of these.
SHOW SESSION VARIABLES
WHERE Variable_name IN ('binlog_format', 'wsrep_on', 'wsrep_provider', 'group_replication_single_primary_mode');

-- name: log-rows
-- A log of statements refuses ours, because their conditions mean something else on another server. Not every user may change the format.
SET SESSION binlog_format = 'ROW';

-- name: begin
-- Refused at once if nothing may be written. This holds for any default of the server.
START TRANSACTION READ WRITE

-- name: one-row
-- Fails if the statement before has not changed one row. Then all statements after it fail, too.
SELECT IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION ALL SELECT 2)) AS changed

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: identity
-- An expression. MySQL identifies each data folder.
@@server_uuid

-- name: identity-in-part
-- MariaDB does not identify its data folder. Instead, this names the place where it runs.
CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir)

-- name: identity-of-cluster
-- A node of a Galera cluster has the data of the cluster. Each node records the set of its nodes, in order with all other writes.
(
  SELECT CONCAT('galera ', c.cluster_uuid, ' ', c.view_id, ' ', GROUP_CONCAT(m.node_uuid ORDER BY m.node_uuid))
  FROM mysql.wsrep_cluster c JOIN mysql.wsrep_cluster_members m ON m.cluster_uuid = c.cluster_uuid
  GROUP BY c.cluster_uuid, c.view_id
)

-- name: cluster
SELECT {identity} AS identity;

-- name: read-latest
-- A node may be behind the others, and a node that was cut off may answer from its old data. With this, each read, and each begin of a
-- transaction, waits until the node has all writes that were committed on any node before.
SET SESSION wsrep_sync_wait = 7, wsrep_dirty_reads = OFF;

-- name: touch
-- Nothing can be written without a table. That the server let the transaction begin has to be enough.
SELECT {clock} AS clock;

-- name: durability
SELECT
  @@innodb_flush_log_at_trx_commit AS flush_log,
  @@log_bin AS log_bin,
  @@sync_binlog AS sync_binlog,
  @@innodb_doublewrite AS doublewrite,
  {identity} AS identity;
