-- Statements that ../common/history.sql cannot say in this dialect.

-- name: prune
-- One batch, but for the newest row of a worker ID.
DELETE FROM {history} WHERE newest = 0 AND until_ms < :before ORDER BY until_ms, worker_id, fence LIMIT :limit;
