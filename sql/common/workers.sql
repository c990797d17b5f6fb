-- A page of what is known about worker IDs, in ascending order.

-- name: page
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM (
  SELECT f.* FROM {window} f WHERE f.worker_id > :after ORDER BY f.worker_id {limit}
) w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
ORDER BY w.worker_id;

-- name: foreign
-- Worker IDs of a span that another program has taken and that have no record here.
SELECT a.worker_id, a.pid, a.ip, a.hostname FROM {assign} a
WHERE a.worker_id > :after AND a.worker_id <= :last
  AND NOT EXISTS (SELECT 1 FROM {window} w WHERE w.worker_id = a.worker_id)
ORDER BY a.worker_id
{limit};
