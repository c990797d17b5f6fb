-- What a claim reads before it decides (rule/pool.ts): a record, or the first few entries of an index, for any count of records. INDEXED BY
-- makes sure of that: without the index, SQLite refuses to prepare the statement. The registry then drops the entries of other pools,
-- except for the pins of a host, because no other search finds these.

-- name: by-token
SELECT * FROM worker INDEXED BY worker_by_token WHERE namespace_id = $namespace_id AND token = $token;

-- name: pinned-for
SELECT worker_id, until_ms FROM worker INDEXED BY worker_by_owner
WHERE namespace_id = $namespace_id AND owner = $owner AND worker_id BETWEEN $first AND $last
ORDER BY until_ms, worker_id
LIMIT $limit;

-- name: oldest
SELECT worker_id, until_ms FROM worker INDEXED BY worker_by_until
WHERE namespace_id = $namespace_id AND pinned IS NULL
ORDER BY until_ms, worker_id
LIMIT $limit;

-- name: oldest-of-host
SELECT worker_id, until_ms FROM worker INDEXED BY worker_by_host
WHERE namespace_id = $namespace_id AND host = $host AND pinned IS NULL
ORDER BY until_ms, worker_id
LIMIT $limit;

-- name: newest-of-host
SELECT worker_id, until_ms FROM worker INDEXED BY worker_by_host
WHERE namespace_id = $namespace_id AND host = $host AND pinned IS NULL
ORDER BY until_ms DESC, worker_id DESC
LIMIT $limit;

-- name: numbers
SELECT worker_id, until_ms FROM worker
WHERE namespace_id = $namespace_id AND worker_id BETWEEN $first AND $last AND pinned IS NULL
ORDER BY worker_id
LIMIT $limit;
