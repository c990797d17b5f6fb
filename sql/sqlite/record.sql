-- The record of one worker ID, read and written as a whole (rule/window.ts decides how it changes), and the gaps between the records.

-- name: get
SELECT * FROM worker WHERE namespace_id = $namespace_id AND worker_id = $worker_id;

-- name: put
INSERT INTO worker (
  namespace_id, worker_id, fence, token, from_ms, until_ms, seen_clock, clean, known_from_ms, began_ms,
  checkpoint_timestamp, checkpoint_sequence, host, ip, pid, instance, claimed_at, released_at, pinned, owner, era, renewals, turn,
  recents_from, recents
) VALUES (
  $namespace_id, $worker_id, $fence, $token, $from_ms, $until_ms, $seen_clock, $clean, $known_from_ms, $began_ms,
  $checkpoint_timestamp, $checkpoint_sequence, $host, $ip, $pid, $instance, $claimed_at, $released_at, $pinned, $owner,
  $era, $renewals, $turn, $recents_from, $recents
)
ON CONFLICT (namespace_id, worker_id) DO UPDATE SET
  fence = excluded.fence,
  token = excluded.token,
  from_ms = excluded.from_ms,
  until_ms = excluded.until_ms,
  seen_clock = excluded.seen_clock,
  clean = excluded.clean,
  known_from_ms = excluded.known_from_ms,
  began_ms = excluded.began_ms,
  checkpoint_timestamp = excluded.checkpoint_timestamp,
  checkpoint_sequence = excluded.checkpoint_sequence,
  host = excluded.host,
  ip = excluded.ip,
  pid = excluded.pid,
  instance = excluded.instance,
  claimed_at = excluded.claimed_at,
  released_at = excluded.released_at,
  pinned = excluded.pinned,
  owner = excluded.owner,
  era = excluded.era,
  renewals = excluded.renewals,
  turn = excluded.turn,
  recents_from = excluded.recents_from,
  recents = excluded.recents;

-- name: put-window
-- If the claim goes on, the other columns stay as they are, and so does the index by token.
UPDATE worker SET
  from_ms = $from_ms,
  until_ms = $until_ms,
  seen_clock = $seen_clock,
  clean = $clean,
  known_from_ms = $known_from_ms,
  began_ms = $began_ms,
  checkpoint_timestamp = $checkpoint_timestamp,
  checkpoint_sequence = $checkpoint_sequence,
  era = $era,
  renewals = $renewals,
  turn = $turn,
  recents_from = $recents_from,
  recents = $recents
WHERE namespace_id = $namespace_id AND worker_id = $worker_id;

-- name: delete
DELETE FROM worker WHERE namespace_id = $namespace_id AND worker_id = $worker_id;

-- name: gap-of
-- The first gap that ends at this worker ID or after it.
SELECT first, last FROM gap WHERE namespace_id = $namespace_id AND last >= $worker_id ORDER BY last LIMIT 1;

-- name: put-gap
INSERT INTO gap (namespace_id, first, last) VALUES ($namespace_id, $first, $last)
ON CONFLICT (namespace_id, last) DO UPDATE SET first = excluded.first;

-- name: delete-gap
DELETE FROM gap WHERE namespace_id = $namespace_id AND last = $last;
