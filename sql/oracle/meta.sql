-- Statements that ../common/meta.sql cannot say in this dialect.

-- name: read
SELECT
  m.name, m.value, m.version,
  EXTRACT(DAY FROM c.since) * 86400000 + EXTRACT(HOUR FROM c.since) * 3600000 + EXTRACT(MINUTE FROM c.since) * 60000
    + FLOOR(EXTRACT(SECOND FROM c.since) * 1000) AS clock,
  {identity} AS identity
FROM {meta} m
CROSS JOIN (SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) - TIMESTAMP '1970-01-01 00:00:00' AS since FROM dual) c;

-- name: create
INSERT INTO {meta} (name, value, version)
SELECT CAST('layout' AS VARCHAR2(80)), CAST(:layout AS VARCHAR2(4000)), 1 FROM dual UNION ALL
SELECT 'maxWindow', :max_window, 1 FROM dual UNION ALL
SELECT 'maxClockSkew', :max_clock_skew, 1 FROM dual UNION ALL
SELECT 'identity', {identity}, 1 FROM dual UNION ALL
SELECT 'era', :era, 1 FROM dual UNION ALL
SELECT 'quarantine', '0', 1 FROM dual UNION ALL
SELECT 'beside', :beside, 1 FROM dual;

-- name: exists
-- Whether the tables were ever made, here or where a synonym points to.
SELECT CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END AS present
FROM all_objects
WHERE object_name = UPPER(:table_name)
  AND object_type IN ('TABLE', 'VIEW', 'SYNONYM')
  AND owner IN (SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA'), 'PUBLIC');

-- name: used
-- Whether a number was ever claimed, as far as one of the other tables still shows it.
SELECT t.worker_id FROM (
  SELECT worker_id FROM {window} WHERE fence > 0 UNION ALL
  SELECT worker_id FROM {history} UNION ALL
  SELECT worker_id FROM {assign} WHERE ip LIKE 'lease@%'
) t
FETCH FIRST 1 ROWS ONLY;

-- name: lock
-- Nobody is kept out: a lock that outlives the commits of the schema's statements takes PL/SQL. Each of them may be run again, by
-- several at once, and the last one, which notes the version, takes effect once.
SELECT 1 AS locked FROM dual;

-- name: unlock
SELECT 1 AS unlocked FROM dual;
