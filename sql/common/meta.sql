-- What is fixed for a namespace and what its operations begin with: era, quarantine, pools, the server's identity and clock.

-- name: add
INSERT INTO {meta} (name, value, version) VALUES (:name, :value, 1);

-- name: set
UPDATE {meta} SET value = :value, version = version + 1 WHERE name = :name AND version = :version;

-- name: touch
-- Changes nothing that anybody looks at, and needs what a change does: the rights, and a server that takes writes.
UPDATE {meta} SET version = version + 1 WHERE name = 'schema';

-- name: create
INSERT INTO {meta} (name, value, version) VALUES
  ('layout', :layout, 1),
  ('maxWindow', :max_window, 1),
  ('maxClockSkew', :max_clock_skew, 1),
  ('identity', {identity}, 1),
  ('era', :era, 1),
  ('quarantine', '0', 1),
  ('beside', :beside, 1);

-- name: used
-- Whether a number was ever claimed, as far as one of the other tables still shows it.
SELECT t.worker_id FROM (
  SELECT worker_id FROM {window} WHERE fence > 0 UNION ALL
  SELECT worker_id FROM {history} UNION ALL
  SELECT worker_id FROM {assign} WHERE ip LIKE 'lease@%'
) t
LIMIT 1;
