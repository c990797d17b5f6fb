-- init and describe, and the beginning of every other operation. A new namespace has one gap, of all numbers.

-- name: find
SELECT namespace_id, layout, max_window, max_clock_skew FROM namespace WHERE name = $name;

-- name: add
INSERT INTO namespace (name, layout, max_window, max_clock_skew, created_at)
VALUES ($name, $layout, $max_window, $max_clock_skew, $created_at)
RETURNING namespace_id, layout, max_window, max_clock_skew;

-- name: add-gap
INSERT INTO gap (namespace_id, first, last) VALUES ($namespace_id, 0, 9007199254740991);
