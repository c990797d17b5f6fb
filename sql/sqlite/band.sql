-- The bands of a namespace (src/registries/bands.ts), and how records are filed under the name of another one: a few at a time.

-- name: list
SELECT first, last, name, filed FROM band WHERE namespace_id = $namespace_id ORDER BY first;

-- name: put
INSERT INTO band (namespace_id, first, last, name, filed) VALUES ($namespace_id, $first, $last, $name, $filed)
ON CONFLICT (namespace_id, first) DO UPDATE SET last = excluded.last, name = excluded.name, filed = excluded.filed;

-- name: nth
-- The worker ID that has a record and comes after $skip others that have one.
SELECT worker_id FROM worker
WHERE namespace_id = $namespace_id AND worker_id BETWEEN $first AND $last
ORDER BY worker_id
LIMIT 1 OFFSET $skip;

-- name: file
UPDATE worker SET band = $name
WHERE namespace_id = $namespace_id AND worker_id BETWEEN $first AND $last AND band <> $name;
