-- The rows that Java processes look at. Our rows contain a marker instead of an address. Snowlease never changes other rows.

-- name: get
SELECT worker_id, pid, ip, hostname FROM {assign} WHERE worker_id = :worker_id;

-- name: numbers
-- The worker IDs of a pool that are taken, from one worker ID upwards.
SELECT worker_id FROM {assign}
WHERE worker_id BETWEEN :first AND :last
ORDER BY worker_id
{limit};

-- name: add
INSERT INTO {assign} (worker_id, pid, ip, hostname, create_time)
VALUES (:worker_id, :pid, :ip, :hostname, CURRENT_TIMESTAMP);

-- name: replace
UPDATE {assign} SET pid = :pid, ip = :ip, hostname = :hostname, create_time = CURRENT_TIMESTAMP
WHERE worker_id = :worker_id AND pid = :old_pid AND ip = :old_ip AND hostname = :old_hostname;

-- name: remove
DELETE FROM {assign} WHERE worker_id = :worker_id AND pid = :pid AND ip = :ip AND hostname = :hostname;

-- name: erase
-- One batch of our rows, even if their record was lost.
DELETE FROM {assign} WHERE worker_id IN (
  SELECT worker_id FROM {assign} WHERE ip LIKE 'lease@%' ORDER BY worker_id {limit}
);

-- name: any-foreign
-- A row if another program has taken a worker ID.
SELECT name FROM {meta} WHERE name = 'schema' AND EXISTS (SELECT 1 FROM {assign} WHERE ip NOT LIKE 'lease@%');

-- name: note-foreigners
-- A record for each worker ID of a span that another program has taken, so that claims need not look at it again.
INSERT INTO {window} (
  worker_id, version, filed_under, fence, from_ms, until_ms, seen_clock, clean, known_from_ms
)
SELECT a.worker_id, :new_version, 'foreign', 0, 0, 0, 0, 0, 0
FROM {assign} a
WHERE a.worker_id BETWEEN :first AND :last
  AND NOT EXISTS (SELECT 1 FROM {window} w WHERE w.worker_id = a.worker_id);
