-- A row a claim. `list` gives the newest rows whose window, continued part included, meets [:from_ms, :until_ms), newest first.

-- name: add
INSERT INTO {history} (
  worker_id, fence, from_ms, until_ms, continued_from, host, ip, pid, instance, claimed_at, newest
) VALUES (
  :worker_id, :fence, :from_ms, :until_ms, :continued_from, :host, :ip, :pid, :instance, :claimed_at, 1
);

-- name: end
-- How a claim ended, unless that was noted before.
UPDATE {history} SET until_ms = :until_ms, ended_at = :ended_at, ended_by = :ended_by
WHERE worker_id = :worker_id AND fence = :fence AND ended_by IS NULL;

-- name: supersede
UPDATE {history} SET newest = 0 WHERE worker_id = :worker_id AND fence = :fence;

-- name: list
SELECT
  h.worker_id, h.fence, h.from_ms, CASE WHEN h.ended_by IS NULL THEN w.until_ms ELSE h.until_ms END AS until_ms,
  h.continued_from, h.host, h.ip, h.pid, h.instance, h.claimed_at, h.ended_at, h.ended_by
FROM {history} h JOIN {window} w ON w.worker_id = h.worker_id
WHERE h.worker_id = :worker_id
  AND CASE WHEN h.ended_by IS NULL THEN w.until_ms ELSE h.until_ms END > :from_ms
  AND coalesce(h.continued_from, h.from_ms) < :until_ms
ORDER BY h.fence DESC
{limit};

-- name: prune
-- One batch. The newest row of a worker ID stays: its index begins with all others, or has only those.
DELETE FROM {history} WHERE (worker_id, fence) IN (
  SELECT worker_id, fence FROM {history}
  WHERE newest = 0 AND until_ms < :before
  ORDER BY until_ms, worker_id, fence
  {limit}
);

-- name: erase
-- One batch of all rows.
DELETE FROM {history} WHERE (worker_id, fence) IN (
  SELECT worker_id, fence FROM {history} ORDER BY worker_id, fence {limit}
);

-- name: drop
DROP TABLE {history};
