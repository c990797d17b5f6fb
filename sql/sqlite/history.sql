-- One row for each claim that has ended.

-- name: put
INSERT OR REPLACE INTO history (
  namespace_id, worker_id, fence, from_ms, until_ms, continued_from, host, ip, pid, instance, claimed_at, ended_at, ended_by
) VALUES (
  $namespace_id, $worker_id, $fence, $from_ms, $until_ms, $continued_from, $host, $ip, $pid, $instance, $claimed_at, $ended_at,
  $ended_by
);

-- name: supersede
UPDATE history SET newest = 0 WHERE namespace_id = $namespace_id AND worker_id = $worker_id AND fence = $fence;

-- name: list
SELECT * FROM history
WHERE namespace_id = $namespace_id AND worker_id = $worker_id AND fence < $before
ORDER BY fence DESC
LIMIT $limit;

-- name: prune
-- One batch. The newest row of a worker ID is not in the index.
DELETE FROM history WHERE (namespace_id, worker_id, fence) IN (
  SELECT namespace_id, worker_id, fence FROM history INDEXED BY history_by_until
  WHERE namespace_id = $namespace_id AND until_ms < $before AND newest = 0
  ORDER BY until_ms
  LIMIT $limit
);
