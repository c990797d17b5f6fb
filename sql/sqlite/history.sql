-- One row for each claim. `list` reads the newest rows below the fence $before whose window, continued part included, meets
-- [$from_ms, $until_ms), newest first. Claim, release and forced release run `add`, `end` and `supersede`.

-- name: add
INSERT INTO history (
  namespace_id, worker_id, fence, from_ms, until_ms, continued_from, host, ip, pid, instance, claimed_at
) VALUES (
  $namespace_id, $worker_id, $fence, $from_ms, $until_ms, $continued_from, $host, $ip, $pid, $instance, $claimed_at
);

-- name: end
-- How a claim ended, unless that was noted before.
UPDATE history SET until_ms = $until_ms, ended_at = $ended_at, ended_by = $ended_by
WHERE namespace_id = $namespace_id AND worker_id = $worker_id AND fence = $fence AND ended_by IS NULL;

-- name: supersede
UPDATE history SET newest = 0 WHERE namespace_id = $namespace_id AND worker_id = $worker_id AND fence = $fence;

-- name: list
SELECT
  h.worker_id, h.fence, h.from_ms, iif(h.ended_by IS NULL, w.until_ms, h.until_ms) AS until_ms, h.continued_from,
  h.host, h.ip, h.pid, h.instance, h.claimed_at, h.ended_at, h.ended_by
FROM history AS h JOIN worker AS w USING (namespace_id, worker_id)
WHERE h.namespace_id = $namespace_id AND h.worker_id = $worker_id AND h.fence < $before
  AND iif(h.ended_by IS NULL, w.until_ms, h.until_ms) > $from_ms
  AND coalesce(h.continued_from, h.from_ms) < $until_ms
ORDER BY h.fence DESC
LIMIT $limit;

-- name: prune
-- One batch. The newest row of a worker ID is not in the index.
DELETE FROM history WHERE (namespace_id, worker_id, fence) IN (
  SELECT namespace_id, worker_id, fence FROM history INDEXED BY history_by_until
  WHERE namespace_id = $namespace_id AND until_ms < $before AND newest = 0
  ORDER BY until_ms
  LIMIT $limit
);
