-- A connection, its transactions, and what the server tells of itself.

-- name: settings
-- Whatever the database and triggers at logon say: compared by linguistic rules, no index is used; and another calendar has other
-- years.
ALTER SESSION SET NLS_COMP = 'BINARY' NLS_SORT = 'BINARY' NLS_CALENDAR = 'GREGORIAN'

-- name: open
-- A standby takes no writes, or forgets them again.
SELECT
  {identity} AS identity,
  SYS_CONTEXT('USERENV', 'DATABASE_ROLE') AS database_role,
  (SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET') AS charset
FROM dual;

-- name: commit
-- Whatever COMMIT_LOGGING and COMMIT_WAIT are.
COMMIT WRITE IMMEDIATE WAIT

-- name: rollback
ROLLBACK

-- name: identity
-- An expression, for who may read v$database: which database this is, and which life of it. Opened with RESETLOGS, after a failover,
-- a restore or a flashback, it begins another one. A session stays within one, so it is asked once.
(SELECT
  SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME') || '.' || SYS_CONTEXT('USERENV', 'CON_NAME') || '/' || CAST(d.dbid AS VARCHAR2(40)) || '.'
    || CAST(d.con_dbid AS VARCHAR2(40)) || '.' || CAST(d."RESETLOGS_CHANGE#" AS VARCHAR2(40)) || '.'
    || TO_CHAR(d.resetlogs_time, 'YYYYMMDDHH24MISS')
FROM "V$DATABASE" d)

-- name: identity-in-part
-- The same for who may not: every database of a Data Guard has a name of its own.
SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME') || '.' || SYS_CONTEXT('USERENV', 'CON_NAME') || '/'

-- name: clock
-- Of an instant with its zone, so that no zone of the session matters; a statement asks for it once, however often it is named.
SELECT
  EXTRACT(DAY FROM c.since) * 86400000 + EXTRACT(HOUR FROM c.since) * 3600000 + EXTRACT(MINUTE FROM c.since) * 60000
    + FLOOR(EXTRACT(SECOND FROM c.since) * 1000) AS clock
FROM (SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) - TIMESTAMP '1970-01-01 00:00:00' AS since FROM dual) c;

-- name: touch
-- The server tells nobody without a table whether it takes writes; that it is no standby was asked when the session was opened.
SELECT
  EXTRACT(DAY FROM c.since) * 86400000 + EXTRACT(HOUR FROM c.since) * 3600000 + EXTRACT(MINUTE FROM c.since) * 60000
    + FLOOR(EXTRACT(SECOND FROM c.since) * 1000) AS clock
FROM (SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) - TIMESTAMP '1970-01-01 00:00:00' AS since FROM dual) c;

-- name: promise
SELECT {identity} AS identity FROM dual;
