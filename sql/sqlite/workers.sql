-- A page of records in ascending order of worker ID, above $after. Records of one state (rule/window.ts: stateOf), by the registry's clock
-- $now, are listed only up to $last. Otherwise one read would go through all records if no record has this state.

-- name: last-of
-- The last of the next $rows records. No row if there are fewer records.
SELECT worker_id FROM worker WHERE namespace_id = $namespace_id AND worker_id > $after
ORDER BY worker_id LIMIT 1 OFFSET $rows - 1;

-- name: all
SELECT * FROM worker WHERE namespace_id = $namespace_id AND worker_id > $after ORDER BY worker_id LIMIT $limit;

-- name: live
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after AND worker_id <= $last AND token IS NOT NULL AND until_ms > $now
ORDER BY worker_id LIMIT $limit;

-- name: pinned
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after AND worker_id <= $last
  AND pinned IS NOT NULL AND NOT (token IS NOT NULL AND until_ms > $now)
ORDER BY worker_id LIMIT $limit;

-- name: resting
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after AND worker_id <= $last
  AND pinned IS NULL AND token IS NULL AND until_ms > $now AND clean = 0
ORDER BY worker_id LIMIT $limit;

-- name: free
SELECT * FROM worker
WHERE namespace_id = $namespace_id AND worker_id > $after AND worker_id <= $last
  AND pinned IS NULL AND (until_ms <= $now OR (token IS NULL AND clean = 1))
ORDER BY worker_id LIMIT $limit;
