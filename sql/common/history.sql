-- A row for each claim that has ended. `history.add` is in the differences. If a record alone was put back, its claim already has a row.

-- name: supersede
UPDATE {history} SET newest = 0 WHERE worker_id = :worker_id AND fence = :fence;

-- name: list
SELECT h.* FROM {history} h
WHERE h.worker_id = :worker_id AND h.fence < :before
ORDER BY h.fence DESC
{limit};

-- name: prune
-- One batch. The newest row of a worker ID stays: the index lists it after all others, or not at all.
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
