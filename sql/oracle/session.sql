-- A connection, its transactions, and what the server says about itself.

-- name: settings
-- These override the settings of the database and of triggers at logon. A comparison by linguistic rules uses no index, and another
-- calendar has other years.
ALTER SESSION SET NLS_COMP = 'BINARY' NLS_SORT = 'BINARY' NLS_CALENDAR = 'GREGORIAN'

-- name: schema
-- Replaces the user's own schema.
ALTER SESSION SET CURRENT_SCHEMA = {schema}

-- name: open
-- A standby accepts no writes, or loses them again.
SELECT
  {identity} AS identity,
  SYS_CONTEXT('USERENV', 'DATABASE_ROLE') AS database_role,
  (SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET') AS charset
FROM dual;

-- name: commit
-- This overrides COMMIT_LOGGING and COMMIT_WAIT.
COMMIT WRITE IMMEDIATE WAIT

-- name: rollback
ROLLBACK

-- name: identity
-- An expression, for a user who may read v$database: this database and its incarnation. After a failover, a restore or a flashback, the
-- database is opened with RESETLOGS, and a new incarnation begins. A session stays within one incarnation, so it asks once.
(SELECT
  SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME') || '.' || SYS_CONTEXT('USERENV', 'CON_NAME') || '/' || CAST(d.dbid AS VARCHAR2(40)) || '.'
    || CAST(d.con_dbid AS VARCHAR2(40)) || '.' || CAST(d."RESETLOGS_CHANGE#" AS VARCHAR2(40)) || '.'
    || TO_CHAR(d.resetlogs_time, 'YYYYMMDDHH24MISS')
FROM "V$DATABASE" d)

-- name: identity-in-part
-- The same for other users. Every database of a Data Guard has its own name.
SYS_CONTEXT('USERENV', 'DB_UNIQUE_NAME') || '.' || SYS_CONTEXT('USERENV', 'CON_NAME') || '/'

-- name: touch
-- Without a table, the server does not say whether it accepts writes. `open` asked whether it is a standby.
SELECT {clock} AS clock FROM dual;

-- name: durability
SELECT {identity} AS identity FROM dual;
