-- Statements that ../common/assign.sql cannot say in this dialect.

-- name: get
SELECT worker_id, pid, ip, hostname FROM {assign} WHERE worker_id = :worker_id::bigint;

-- name: numbers
-- The numbers of a pool that are taken, from one on.
SELECT worker_id FROM {assign}
WHERE worker_id BETWEEN :first::bigint AND :last::bigint
ORDER BY worker_id
LIMIT :limit;

-- name: replace
UPDATE {assign} SET pid = :pid, ip = :ip, hostname = :hostname, create_time = CURRENT_TIMESTAMP
WHERE worker_id = :worker_id::bigint AND pid = :old_pid AND ip = :old_ip AND hostname = :old_hostname;

-- name: remove
DELETE FROM {assign} WHERE worker_id = :worker_id::bigint AND pid = :pid AND ip = :ip AND hostname = :hostname;

-- name: note-foreigners
-- A record for each number of a span that somebody took who keeps none, so that claims need not come by again.
INSERT INTO {window} (
  worker_id, version, era, pool, filed, fence, from_ms, until_ms, seen_clock, clean, floor_ms
)
SELECT a.worker_id, 1, 0, NULL, 'foreign', 0, 0, 0, 0, 0, 0
FROM {assign} a
WHERE a.worker_id BETWEEN :first::bigint AND :last::bigint
  AND NOT EXISTS (SELECT 1 FROM {window} w WHERE w.worker_id = a.worker_id);
