-- What a claim looks at before it decides (src/rule/pool.ts). Each statement reads the first few entries of an index, whatever the
-- number of records; FORCE INDEX makes that a promise. None selects from another SELECT: for that MariaDB makes a temporary table,
-- on its disk because of the columns of text and bytes.

-- name: by-token
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX ({token_index}) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.token = :token;

-- name: numbers
-- The numbers of a pool that have a record, from one on: the first that is missing is the first unused.
SELECT worker_id FROM {window} FORCE INDEX (PRIMARY)
WHERE worker_id BETWEEN :first AND :last
ORDER BY worker_id
LIMIT :limit;

-- name: oldest
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX ({until_index}) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.filed = :filed AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;

-- name: oldest-of-host
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w FORCE INDEX ({host_index}) LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.filed = :filed AND w.host = :host AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;

-- name: newest-of-host
SELECT w.*, NULL AS assign_pid, NULL AS assign_ip, NULL AS assign_hostname
FROM {window} w FORCE INDEX ({host_index})
WHERE w.filed = :filed AND w.host = :host AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms DESC, w.worker_id DESC
LIMIT 1;

-- name: left-by-foreigners
-- Numbers that were in foreign hands and are in nobody's now.
SELECT w.*, NULL AS assign_pid, NULL AS assign_ip, NULL AS assign_hostname
FROM {window} w FORCE INDEX ({until_index})
WHERE w.filed = 'foreign' AND w.worker_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM {assign} a WHERE a.worker_id = w.worker_id)
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;
