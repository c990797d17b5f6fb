-- The end of a namespace: src/rule/drop.ts. `begin` to `meta` are one transaction. A claim or a renewal that read the era before may be
-- committed at the same time. What it writes stays: the next namespace of this name grants its worker ID behind that window.

-- name: obstacle
-- A record that stands in the way.
SELECT w.* FROM {window} w
WHERE w.until_ms > :clock OR w.pinned IS NOT NULL
ORDER BY w.worker_id
{limit};

-- name: begin
-- By the era that was read, on the server that it was read from, where nothing stands in the way any more.
UPDATE {meta} SET value = :value, version = version + 1
WHERE name = 'era' AND value = :present_era AND {identity} = :identity
  AND NOT EXISTS (SELECT 1 FROM {window} w WHERE w.until_ms > :clock OR w.pinned IS NOT NULL);

-- name: windows
-- Not those that a renewal has opened again since.
DELETE FROM {window} WHERE until_ms <= :clock AND pinned IS NULL;

-- name: history
DELETE FROM {history};

-- name: assign
-- Only our rows.
DELETE FROM {assign} WHERE ip LIKE 'lease@%';

-- name: meta
-- All but the version of the tables and what is noted.
DELETE FROM {meta} WHERE name NOT IN ('schema', 'era', 'quarantineEnd', 'opensAt', 'droppedLayout');

-- name: window-table
DROP TABLE {window};

-- name: history-table
DROP TABLE {history};

-- name: assign-table
DROP TABLE {assign};

-- name: meta-table
DROP TABLE {meta};
