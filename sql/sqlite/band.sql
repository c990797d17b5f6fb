-- Which numbers are filed under which name (src/registries/bands.ts), and how records come to lie under another one: a few at a time.

-- name: list
SELECT first, last, name, filed FROM band WHERE namespace_id = $namespace_id ORDER BY first;

-- name: put
INSERT INTO band (namespace_id, first, last, name, filed) VALUES ($namespace_id, $first, $last, $name, $filed)
ON CONFLICT (namespace_id, first) DO UPDATE SET last = excluded.last, name = excluded.name, filed = excluded.filed;

-- name: nth
-- Of the numbers with a record, the one behind so many.
SELECT worker_id FROM worker
WHERE namespace_id = $namespace_id AND worker_id BETWEEN $first AND $last
ORDER BY worker_id
LIMIT 1 OFFSET $skip;

-- name: file
UPDATE worker SET band = $name
WHERE namespace_id = $namespace_id AND worker_id BETWEEN $first AND $last AND band <> $name;
