-- Statements that ../common/history.sql cannot say in this dialect.

-- name: prune
-- One batch. The newest row of a worker ID is not in the index.
DELETE FROM {history} WHERE (worker_id, fence) IN (
  SELECT worker_id, fence FROM {history}
  WHERE newest = 0 AND until_ms < :before
  ORDER BY until_ms, worker_id, fence
  LIMIT :limit
);
