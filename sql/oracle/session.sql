-- A connection, its transactions, and what the server tells of itself.

-- name: settings
-- Whatever the database and triggers at logon say: compared by linguistic rules, no index is used; and another calendar has other
-- years.
ALTER SESSION SET NLS_COMP = 'BINARY' NLS_SORT = 'BINARY' NLS_CALENDAR = 'GREGORIAN'

-- name: schema
-- In the place of the user's own.
ALTER SESSION SET CURRENT_SCHEMA = {schema}

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
-- An expression, for a user who may read v$database: which database this is, and which life of it. After a failover, a restore or a
-- flashback it is opened with RESETLOGS, and its next life begins. A session stays within one, so it asks once.
(SELECT
  SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME') || '.' || SYS_CONTEXT('USERENV', 'CON_NAME') || '/' || CAST(d.dbid AS VARCHAR2(40)) || '.'
    || CAST(d.con_dbid AS VARCHAR2(40)) || '.' || CAST(d."RESETLOGS_CHANGE#" AS VARCHAR2(40)) || '.'
    || TO_CHAR(d.resetlogs_time, 'YYYYMMDDHH24MISS')
FROM "V$DATABASE" d)

-- name: identity-in-part
-- The same for other users: every database of a Data Guard has a name of its own.
SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME') || '.' || SYS_CONTEXT('USERENV', 'CON_NAME') || '/'

-- name: touch
-- Without a table the server does not say whether it takes writes; `open` asked whether it is a standby.
SELECT {clock} AS clock FROM dual;

-- name: durability
SELECT {identity} AS identity FROM dual;
