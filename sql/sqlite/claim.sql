-- What a claim reads before it decides (rule/pool.ts). Each statement reads the first few entries of an index, whatever the number of
-- records; INDEXED BY makes sure of that: without the index SQLite refuses to prepare the statement. All records of a band of the pool
-- are in the pool: the limits exclude records only where a file is damaged.

-- name: by-token
SELECT * FROM worker INDEXED BY worker_by_token WHERE namespace_id = $namespace_id AND token = $token;

-- name: pinned-for
SELECT * FROM worker INDEXED BY worker_by_owner
WHERE namespace_id = $namespace_id AND owner = $owner AND worker_id BETWEEN $pool_first AND $pool_last
ORDER BY until_ms, worker_id
LIMIT $limit;

-- name: oldest
SELECT * FROM worker INDEXED BY worker_by_until
WHERE namespace_id = $namespace_id AND band = $band
  AND worker_id BETWEEN $pool_first AND $pool_last AND pinned IS NULL
ORDER BY until_ms, worker_id
LIMIT $limit;

-- name: oldest-of-host
SELECT * FROM worker INDEXED BY worker_by_host
WHERE namespace_id = $namespace_id AND band = $band AND host = $host
  AND worker_id BETWEEN $pool_first AND $pool_last AND pinned IS NULL
ORDER BY until_ms, worker_id
LIMIT $limit;

-- name: newest-of-host
SELECT * FROM worker INDEXED BY worker_by_host
WHERE namespace_id = $namespace_id AND band = $band AND host = $host
  AND worker_id BETWEEN $pool_first AND $pool_last AND pinned IS NULL
ORDER BY until_ms DESC, worker_id DESC
LIMIT 1;
