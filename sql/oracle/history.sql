-- Statements that ../common/history.sql cannot say in this dialect.

-- name: list
SELECT
  h.worker_id, h.fence, h.from_ms, CASE WHEN h.ended_by IS NULL THEN w.until_ms ELSE h.until_ms END AS until_ms,
  h.continued_from, h.host, h.ip, h.pid, h.instance, h.claimed_at, h.ended_at, h.ended_by
FROM {history} h JOIN {window} w ON w.worker_id = h.worker_id
WHERE h.worker_id = :worker_id
  AND CASE WHEN h.ended_by IS NULL THEN w.until_ms ELSE h.until_ms END > :from_ms
  AND coalesce(h.continued_from, h.from_ms) < :until_ms
ORDER BY h.fence DESC
FETCH FIRST :limit ROWS ONLY;

-- name: prune
-- One batch, but for the newest row of a worker ID.
DELETE FROM {history} WHERE (worker_id, fence) IN (
  SELECT worker_id, fence FROM {history}
  WHERE newest = 0 AND until_ms < :before
  ORDER BY until_ms, worker_id, fence
  FETCH FIRST :limit ROWS ONLY
);
