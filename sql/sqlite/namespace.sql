-- init and describe, and the beginning of every other operation. A new namespace has one gap, of all numbers.

-- name: find
SELECT namespace_id, id, layout, max_window, max_clock_skew, era, quarantine_end, opens_at, clock_boot, clock_ahead
FROM namespace WHERE name = $name;

-- name: names
SELECT name FROM namespace WHERE name > $after ORDER BY name LIMIT $limit;

-- name: receipt-key
SELECT receipt_key FROM namespace WHERE namespace_id = $namespace_id;

-- name: add
INSERT INTO namespace (
  name, id, receipt_key, layout, max_window, max_clock_skew, created_at, era, quarantine_end, opens_at
) VALUES (
  $name, $id, $receipt_key, $layout, $max_window, $max_clock_skew, $created_at, $era, $quarantine_end, $opens_at
)
RETURNING namespace_id, id, layout, max_window, max_clock_skew, era, quarantine_end, opens_at, clock_boot, clock_ahead;

-- name: put-era
UPDATE namespace SET era = $era, quarantine_end = $quarantine_end, opens_at = $opens_at WHERE namespace_id = $namespace_id;

-- name: replace
UPDATE namespace
SET id = $id, receipt_key = $receipt_key, era = $era, quarantine_end = $quarantine_end, opens_at = $opens_at
WHERE namespace_id = $namespace_id;

-- name: add-gap
INSERT INTO gap (namespace_id, first, last) VALUES ($namespace_id, 0, 9007199254740991);

-- name: noted
SELECT era, quarantine_end, opens_at, layout FROM unknown_namespace WHERE name = $name;

-- name: note
INSERT OR REPLACE INTO unknown_namespace (name, era, quarantine_end, opens_at, layout)
VALUES ($name, $era, $quarantine_end, $opens_at, $layout);

-- name: forget-note
DELETE FROM unknown_namespace WHERE name = $name;

-- name: obstacle
-- A record that stands in the way of a drop: src/rule/drop.ts.
SELECT * FROM worker WHERE namespace_id = $namespace_id AND (until_ms > $now OR pinned IS NOT NULL) ORDER BY worker_id LIMIT 1;

-- name: empty-worker
DELETE FROM worker WHERE namespace_id = $namespace_id;

-- name: empty-band
DELETE FROM band WHERE namespace_id = $namespace_id;

-- name: empty-gap
DELETE FROM gap WHERE namespace_id = $namespace_id;

-- name: empty-history
DELETE FROM history WHERE namespace_id = $namespace_id;

-- name: empty-namespace
DELETE FROM namespace WHERE namespace_id = $namespace_id;
