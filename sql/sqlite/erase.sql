-- The removal of a namespace: its rows in batches, then the rest of it.

-- name: history
DELETE FROM history WHERE (namespace_id, worker_id, fence) IN (
  SELECT namespace_id, worker_id, fence FROM history WHERE namespace_id = $namespace_id LIMIT $limit
);

-- name: worker
DELETE FROM worker WHERE (namespace_id, worker_id) IN (
  SELECT namespace_id, worker_id FROM worker WHERE namespace_id = $namespace_id LIMIT $limit
);

-- name: gaps
DELETE FROM gap WHERE namespace_id = $namespace_id;

-- name: namespace
DELETE FROM namespace WHERE namespace_id = $namespace_id;
