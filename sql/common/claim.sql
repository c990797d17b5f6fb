-- What a claim looks at before it decides (src/rule/pool.ts). Each statement reads the first few entries of an index, for any count of
-- records. Oracle needs the hints for that, and PostgreSQL reads them as comments. `oldest` passes over entries of other pools.

-- name: by-token
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.token = :token;

-- name: numbers
-- The worker IDs of a pool that have a record, from one worker ID upwards. The first missing one is the first unused one.
SELECT /*+ INDEX_ASC(w {window_key}) */ w.worker_id FROM {window} w
WHERE w.worker_id BETWEEN :first AND :last
ORDER BY w.worker_id
{limit};

-- name: count
SELECT COUNT(*) AS numbers FROM {window} w WHERE w.worker_id BETWEEN :first AND :last;

-- name: oldest
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM (
  SELECT /*+ INDEX_ASC(f {until_index}) */ f.* FROM {window} f
  WHERE f.filed_under = :filed_under AND f.worker_id BETWEEN :first AND :last
  ORDER BY f.until_ms, f.worker_id
  {limit}
) w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
ORDER BY w.until_ms, w.worker_id;

-- name: oldest-in-range
-- For so few worker IDs that each record is looked at. Because of the sum, no index gives the order: entries of other worker IDs may come
-- first in an index.
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM (
  SELECT /*+ INDEX(f {window_key}) */ f.* FROM {window} f
  WHERE f.filed_under = :filed_under AND f.worker_id BETWEEN :first AND :last
  ORDER BY f.until_ms + 0, f.worker_id
  {limit}
) w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
ORDER BY w.until_ms, w.worker_id;

-- name: oldest-of-host
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM (
  SELECT /*+ INDEX_ASC(f {host_index}) */ f.* FROM {window} f
  WHERE f.filed_under = :filed_under AND f.host = :host AND f.worker_id BETWEEN :first AND :last
  ORDER BY f.until_ms, f.worker_id
  {limit}
) w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
ORDER BY w.until_ms, w.worker_id;

-- name: newest-of-host
SELECT /*+ INDEX_DESC(w {host_index}) */ w.* FROM {window} w
WHERE w.filed_under = :filed_under AND w.host = :host AND w.worker_id BETWEEN :first AND :last
ORDER BY w.until_ms DESC, w.worker_id DESC
{limit};

-- name: left-by-foreigners
-- Worker IDs that another program had taken and has given back.
SELECT /*+ INDEX_ASC(w {until_index}) */ w.* FROM {window} w
WHERE w.filed_under = 'foreign' AND w.worker_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM {assign} a WHERE a.worker_id = w.worker_id)
ORDER BY w.until_ms, w.worker_id
{limit};
