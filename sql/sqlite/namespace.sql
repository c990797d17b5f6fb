-- init and describe, and the first read of every other operation. A new namespace has one gap, which contains all worker IDs.

-- name: find
SELECT namespace_id, id, layout, max_window, max_clock_skew, era, quarantine_end, opens_at, clock_boot, clock_ahead
FROM namespace WHERE name = $name;

-- name: receipt-key
SELECT receipt_key FROM namespace WHERE namespace_id = $namespace_id;

-- name: add
INSERT INTO namespace (
  name, id, receipt_key, layout, max_window, max_clock_skew, created_at, era, quarantine_end, opens_at
) VALUES (
  $name, $id, $receipt_key, $layout, $max_window, $max_clock_skew, $created_at, $era, $quarantine_end, $opens_at
)
RETURNING namespace_id;

-- name: put
UPDATE namespace
SET id = $id, receipt_key = $receipt_key, era = $era, quarantine_end = $quarantine_end, opens_at = $opens_at
WHERE namespace_id = $namespace_id;

-- name: add-gap
INSERT INTO gap (namespace_id, first, last) VALUES ($namespace_id, 0, 9007199254740991);

-- name: noted
SELECT era, quarantine_end, opens_at FROM unknown_namespace WHERE name = $name;

-- name: note
INSERT OR REPLACE INTO unknown_namespace (name, era, quarantine_end, opens_at) VALUES ($name, $era, $quarantine_end, $opens_at);

-- name: forget-note
DELETE FROM unknown_namespace WHERE name = $name;
