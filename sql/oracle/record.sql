-- Statements that ../common/record.sql cannot say in this dialect.

-- name: add
INSERT INTO {window} (
  worker_id, version, era, pool, filed, fence, token, from_ms, until_ms, seen_clock, clean, floor_ms,
  checkpoint_timestamp, checkpoint_sequence, host, ip, pid, instance, claimed_at, released_at, pinned, recents_from, recents
)
SELECT
  :worker_id, 1, :era, :pool, :filed, :fence, :token, :from_ms, :until_ms, :seen_clock, :clean, :floor_ms,
  :checkpoint_timestamp, :checkpoint_sequence, :host, :ip, :pid, :instance, :claimed_at, :released_at, :pinned,
  :recents_from, :recents
FROM dual
WHERE {identity} = :identity
  AND EXISTS (SELECT 1 FROM {meta} m WHERE m.name = 'era' AND m.value = :present_era);
