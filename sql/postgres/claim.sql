-- What a claim looks at before it decides (src/rule/pool.ts). Each statement reads the first few entries of an index, whatever the
-- number of records.

-- name: by-token
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.token = :token;

-- name: numbers
-- The numbers of a pool that have a record, from one on: the first that is missing is the first unused.
SELECT worker_id FROM {window}
WHERE worker_id BETWEEN :first AND :last
ORDER BY worker_id
LIMIT :limit;

-- name: oldest
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM (
  SELECT * FROM {window}
  WHERE filed = :filed AND worker_id BETWEEN :first AND :last
  ORDER BY until_ms, worker_id
  LIMIT :limit
) w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
ORDER BY w.until_ms, w.worker_id;

-- name: oldest-of-host
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM (
  SELECT * FROM {window}
  WHERE filed = :filed AND host = :host AND worker_id BETWEEN :first AND :last
  ORDER BY until_ms, worker_id
  LIMIT :limit
) w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
ORDER BY w.until_ms, w.worker_id;

-- name: newest-of-host
SELECT w.*, NULL AS assign_pid, NULL AS assign_ip, NULL AS assign_hostname
FROM {window} w
WHERE w.filed = :filed AND w.host = :host AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms DESC, w.worker_id DESC
LIMIT 1;

-- name: left-by-foreigners
-- Numbers that were in foreign hands and are in nobody's now.
SELECT w.*, NULL AS assign_pid, NULL AS assign_ip, NULL AS assign_hostname
FROM {window} w
WHERE w.filed = 'foreign' AND w.worker_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM {assign} a WHERE a.worker_id = w.worker_id)
ORDER BY w.until_ms, w.worker_id
LIMIT :limit;
