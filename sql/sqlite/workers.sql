-- A page of records in ascending order of worker ID, above $after; of one state (core/window.ts: stateOf) by the registry's
-- clock $now.

-- name: all
SELECT * FROM worker WHERE namespace_id = $namespace_id AND worker_id > $after ORDER BY worker_id LIMIT $limit;

-- name: live
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after AND token IS NOT NULL AND until_ms > $now
ORDER BY worker_id LIMIT $limit;

-- name: pinned
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after
  AND pinned IS NOT NULL AND NOT (token IS NOT NULL AND until_ms > $now)
ORDER BY worker_id LIMIT $limit;

-- name: resting
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after
  AND pinned IS NULL AND token IS NULL AND until_ms > $now AND clean = 0
ORDER BY worker_id LIMIT $limit;

-- name: free
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after
  AND pinned IS NULL AND (until_ms <= $now OR (token IS NULL AND clean = 1))
ORDER BY worker_id LIMIT $limit;
