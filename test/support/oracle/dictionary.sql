-- What a database of Oracle has by itself, as far as it is asked for.
CREATE TABLE "V$DATABASE" (dbid NUMBER(19), con_dbid NUMBER(19), "RESETLOGS_CHANGE#" NUMBER(19), resetlogs_time DATE);
INSERT INTO "V$DATABASE" VALUES (1480326241, 2214758412, 1, TIMESTAMP '2026-01-31 09:30:00');
CREATE TABLE nls_database_parameters (parameter VARCHAR2(30), value VARCHAR2(60));
INSERT INTO nls_database_parameters VALUES ('NLS_CHARACTERSET', 'AL32UTF8');
CREATE TABLE userenv (name VARCHAR2(30), value VARCHAR2(60));
INSERT INTO userenv VALUES ('DB_UNIQUE_NAME', 'ids_site1');
INSERT INTO userenv VALUES ('CON_NAME', 'IDS');
INSERT INTO userenv VALUES ('DATABASE_ROLE', 'PRIMARY');
INSERT INTO userenv VALUES ('CURRENT_SCHEMA', 'PUBLIC');
CREATE FUNCTION SYS_CONTEXT(context VARCHAR(30), asked VARCHAR(30)) RETURNS VARCHAR(60) READS SQL DATA
  RETURN (SELECT e.value FROM userenv e WHERE e.name = asked AND context = 'USERENV');
CREATE VIEW all_objects AS
  SELECT table_schema AS owner, table_name AS object_name, 'TABLE' AS object_type FROM INFORMATION_SCHEMA.TABLES;
COMMIT;
