-- Where this dialect differs from ../common/: the texts of names in braces, and statements. If a SELECT reads from another SELECT, MariaDB
-- makes a temporary table, and because of the columns of text and bytes it is on disk. So no statement contains a nested SELECT. FORCE
-- INDEX makes sure that each statement of a claim reads only the first few entries of an index.

-- name: {clock}
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000

-- name: {limit}
LIMIT :limit

-- name: claim.by-token
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX ({token_index}) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.token = :token;

-- name: claim.numbers
SELECT worker_id FROM {window} FORCE INDEX (PRIMARY)
WHERE worker_id BETWEEN :first AND :last
ORDER BY worker_id
LIMIT :limit;

-- name: claim.oldest
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX ({until_index}) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.filed_under = :filed_under AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;

-- name: claim.oldest-in-range
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX (PRIMARY) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.filed_under = :filed_under AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;

-- name: claim.oldest-of-host
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX ({host_index}) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.filed_under = :filed_under AND w.host = :host AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;

-- name: claim.newest-of-host
SELECT w.* FROM {window} w FORCE INDEX ({host_index})
WHERE w.filed_under = :filed_under AND w.host = :host AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms DESC, w.worker_id DESC
LIMIT :limit;

-- name: claim.left-by-foreigners
SELECT w.* FROM {window} w FORCE INDEX ({until_index})
WHERE w.filed_under = 'foreign' AND w.worker_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM {assign} a WHERE a.worker_id = w.worker_id)
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;

-- name: assign.erase
DELETE FROM {assign} WHERE ip LIKE 'lease@%' ORDER BY worker_id LIMIT :limit;

-- name: meta.lock-tables
-- Only on MariaDB. No other session can read or write the tables until this session unlocks them, or ends. The lock is taken at once or not
-- at all, because all other sessions would wait after one that waits for it.
LOCK TABLES {written_tables} NOWAIT;

-- name: meta.drop-tables
DROP TABLE {tables} NOWAIT;

-- name: meta.unlock-tables
UNLOCK TABLES;

-- name: history.add
INSERT INTO {history} (
  worker_id, fence, from_ms, until_ms, continued_from, host, ip, pid, instance, claimed_at, ended_at, ended_by, newest
) VALUES (
  :worker_id, :fence, :from_ms, :until_ms, :continued_from, :host, :ip, :pid, :instance, :claimed_at, :ended_at, :ended_by, :newest
)
ON DUPLICATE KEY UPDATE
  from_ms = VALUES(from_ms), until_ms = VALUES(until_ms), continued_from = VALUES(continued_from), host = VALUES(host), ip = VALUES(ip),
  pid = VALUES(pid), instance = VALUES(instance), claimed_at = VALUES(claimed_at), ended_at = VALUES(ended_at), ended_by = VALUES(ended_by),
  newest = VALUES(newest);

-- name: history.erase
DELETE FROM {history} ORDER BY worker_id, fence LIMIT :limit;

-- name: history.prune
DELETE FROM {history} WHERE newest = 0 AND until_ms < :before ORDER BY until_ms, worker_id, fence LIMIT :limit;

-- name: meta.exists
SELECT COUNT(*) AS present FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :table_name;

-- name: meta.schema
-- A MySQL database has no schemas.
SELECT NULL AS schema_name;

-- name: meta.elsewhere
-- In the databases that this user may look at.
SELECT table_schema AS database_name, CONCAT('`', REPLACE(table_schema, '`', '``'), '`.`', table_name, '`') AS place
FROM information_schema.tables
WHERE table_name = :table_name AND table_schema <> DATABASE()
ORDER BY 1
LIMIT 10;

-- name: meta.databases
-- A session sees all databases that it can, so there are no others to connect to.
SELECT NULL AS database_name FROM dual WHERE 1 = 0;

-- name: meta.lock
-- Only one `init` runs at a time. The lock ends with the connection, whatever the statements of the schema commit.
SELECT GET_LOCK(CONCAT('snowlease ', :table_name), {lock_timeout}) AS locked;

-- name: meta.unlock
SELECT RELEASE_LOCK(CONCAT('snowlease ', :table_name)) AS unlocked;

-- name: record.erase
DELETE FROM {window} ORDER BY worker_id LIMIT :limit;

-- name: record.last-use
-- Waits for each row that another transaction has added or changed and not committed yet, and then reads the row.
SELECT MAX(until_ms) AS until_ms, MAX(fence) AS fence FROM {window} FOR UPDATE;

-- name: record.lock-all
-- Locks nothing, because LOCK TABLES commits, and needs a right of its own. But a DELETE waits for each row that another transaction has
-- added and not committed yet. In a Galera cluster it does not see those rows of other nodes. So a claim that was on its way before the
-- seal may leave a record, of an era that is over.
SELECT 1 AS locked;

-- name: workers.page
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.worker_id > :after
ORDER BY w.worker_id
LIMIT :limit;
