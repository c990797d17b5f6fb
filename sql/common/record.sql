-- The record of one worker ID. It is read together with the row that Java processes see, and written as a whole. src/rule/window.ts decides
-- what it becomes. A write takes effect only on what was read: same version (drawn, not counted: src/registries/sql/version.ts), same
-- server, same era.

-- name: get
SELECT w.*, a.pid AS assign_pid, a.ip AS assign_ip, a.hostname AS assign_hostname
FROM {window} w LEFT JOIN {assign} a ON a.worker_id = w.worker_id
WHERE w.worker_id = :worker_id;

-- name: add
INSERT INTO {window} (
  worker_id, version, era, filed_under, fence, token, renewals, turn, from_ms, until_ms, seen_clock, clean,
  known_from_ms, began_ms, checkpoint_timestamp, checkpoint_sequence, host, ip, pid, instance, claimed_at, released_at, pinned,
  recents_from, recents
)
SELECT
  :worker_id, :new_version, :era, :filed_under, :fence, :token, :renewals, :turn, :from_ms, :until_ms, :seen_clock, :clean,
  :known_from_ms, :began_ms, :checkpoint_timestamp, :checkpoint_sequence, :host, :ip, :pid, :instance, :claimed_at, :released_at, :pinned,
  :recents_from, :recents
FROM {meta} m
WHERE m.name = 'era' AND m.value = :present_era AND {identity} = :identity;

-- name: put
UPDATE {window} SET
  version = :new_version,
  era = :era,
  filed_under = :filed_under,
  fence = :fence,
  token = :token,
  renewals = :renewals,
  turn = :turn,
  from_ms = :from_ms,
  until_ms = :until_ms,
  seen_clock = :seen_clock,
  clean = :clean,
  known_from_ms = :known_from_ms,
  began_ms = :began_ms,
  checkpoint_timestamp = :checkpoint_timestamp,
  checkpoint_sequence = :checkpoint_sequence,
  host = :host,
  ip = :ip,
  pid = :pid,
  instance = :instance,
  claimed_at = :claimed_at,
  released_at = :released_at,
  pinned = :pinned,
  recents_from = :recents_from,
  recents = :recents
WHERE worker_id = :worker_id AND version = :version
  AND {identity} = :identity
  AND EXISTS (SELECT 1 FROM {meta} m WHERE m.name = 'era' AND m.value = :present_era);

-- name: touch
-- Leaves the record as it is, and locks it until the transaction ends.
UPDATE {window} SET version = :new_version
WHERE worker_id = :worker_id AND version = :version
  AND {identity} = :identity
  AND EXISTS (SELECT 1 FROM {meta} m WHERE m.name = 'era' AND m.value = :present_era);

-- name: in-time
-- Leaves the record as it is, while the clock shows a time before this one. It runs after a statement that may have had to wait.
UPDATE {window} SET version = :new_version WHERE worker_id = :worker_id AND {clock} < :before;

-- name: lock-all
-- Waits for every transaction that writes records or their history, even for rows that cannot be seen yet, and keeps other transactions
-- from writing until this one ends.
LOCK TABLE {window}, {history} IN SHARE ROW EXCLUSIVE MODE;

-- name: last-use
-- The end of the last window, and the highest fence.
SELECT MAX(until_ms) AS until_ms, MAX(fence) AS fence FROM {window};

-- name: erase
-- One batch.
DELETE FROM {window} WHERE worker_id IN (SELECT worker_id FROM {window} ORDER BY worker_id {limit});

-- name: forget
-- Only a worker ID that was never used.
DELETE FROM {window} WHERE worker_id = :worker_id AND version = :version AND fence = 0;
