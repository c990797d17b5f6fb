-- Statements that ../common/assign.sql cannot say in this dialect.

-- name: numbers
-- The numbers of a pool that are taken, from one on.
SELECT worker_id FROM {assign}
WHERE worker_id BETWEEN :first AND :last
ORDER BY worker_id
LIMIT :limit;
