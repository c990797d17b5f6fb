-- How far the wall clock may be ahead of the time since boot (clock-guard.ts).

-- name: least
SELECT clock_ahead AS ahead FROM namespace WHERE clock_boot = $boot ORDER BY clock_ahead LIMIT 1;

-- name: accept
UPDATE namespace SET clock_boot = $boot, clock_ahead = $ahead WHERE namespace_id = $namespace_id;

-- name: accept-for-all
UPDATE namespace SET clock_boot = $boot, clock_ahead = $ahead;

-- name: note-operation
INSERT INTO operation (done_at, kind, detail) VALUES ($done_at, $kind, $detail);

-- name: most
-- The namespace with the lowest limit decides: it would refuse a claim.
SELECT min(clock_ahead + max_clock_skew) AS ahead FROM namespace WHERE clock_boot = $boot;
