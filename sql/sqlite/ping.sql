-- ping and verify: whether the file can be read and written.

-- name: look
-- Reads the first entry of each table and index that a claim reads. Fails if one of them is damaged at its root.
SELECT
  (SELECT made_at FROM registry),
  (SELECT name FROM namespace ORDER BY namespace_id LIMIT 1),
  (SELECT name FROM namespace ORDER BY name LIMIT 1),
  (SELECT worker_id FROM worker LIMIT 1),
  (SELECT token FROM worker INDEXED BY worker_by_token WHERE token IS NOT NULL LIMIT 1),
  (SELECT until_ms FROM worker INDEXED BY worker_by_until WHERE pinned IS NULL LIMIT 1),
  (SELECT until_ms FROM worker INDEXED BY worker_by_host WHERE pinned IS NULL LIMIT 1),
  (SELECT until_ms FROM worker INDEXED BY worker_by_owner WHERE owner IS NOT NULL LIMIT 1),
  (SELECT last FROM gap LIMIT 1),
  (SELECT fence FROM history LIMIT 1),
  (SELECT until_ms FROM history INDEXED BY history_by_until WHERE newest = 0 LIMIT 1);

-- name: touch
-- Together with `untouch` it changes nothing, but needs everything that a change needs: the lock, the space, the disk.
INSERT INTO operation (operation_id, done_at, kind, detail) VALUES (-1, $done_at, 'ping', '');

-- name: untouch
DELETE FROM operation WHERE operation_id = -1;

-- name: verify
-- Reads the whole file. One row: `ok`, or the first problem.
PRAGMA quick_check(1);
