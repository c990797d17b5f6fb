-- `snowlease init` runs these statements, and `init --print` shows them. Names in braces are those of this namespace:
-- src/registries/sql/statements.ts. Each statement can be repeated: this database commits each one separately, and leaves existing things
-- as they are. An empty text is NULL here, so columns whose text may be empty allow NULL.
--
-- Times are Unix ms by this database's clock, unless a name says otherwise.

-- name: 2
-- The table as westid makes it, without any further constraint, because its Java processes read any violation as "taken". It has one row
-- for each worker ID that is taken.
CREATE TABLE {assign} (
  worker_id INT NOT NULL,
  pid INT NOT NULL,
  ip VARCHAR2(15) NOT NULL,
  hostname VARCHAR2(60) NOT NULL,
  create_time TIMESTAMP NOT NULL,
  CONSTRAINT {assign_key} PRIMARY KEY (worker_id)
);

-- The record of each worker ID that was ever claimed, is pinned, or was once taken by another program. Labels have up to 255 characters.
-- The character set UTF8 counts some of them twice.
CREATE TABLE {window} (
  worker_id NUMBER(19) NOT NULL,
  -- Every write draws a new version. An operation that decided by an earlier version decides again.
  version NUMBER(19) NOT NULL,
  -- The era in which a holder last wrote the record: `Era.era` in src/rule/era.ts.
  era VARCHAR2(64),
  -- The name under which the indexes list the record. `pool`: for all claims. `foreign`: another program has the worker ID, or it was given
  -- back to such programs. `owner:ADDRESS`: it is pinned for a host. NULL: it is pinned without an owner, and no claim looks for it.
  filed_under VARCHAR2(64),
  fence NUMBER(19) NOT NULL,
  -- A hash of the holder's token.
  token VARCHAR2(64),
  renewals NUMBER(19) DEFAULT 0 NOT NULL,
  turn VARCHAR2(64),
  from_ms NUMBER(19) NOT NULL,
  until_ms NUMBER(19) NOT NULL,
  seen_clock NUMBER(19) NOT NULL,
  clean NUMBER(5) NOT NULL,
  known_from_ms NUMBER(19) NOT NULL,
  -- The begin of the claim, if the window begins later than the claim, as after a quarantine.
  began_ms NUMBER(19),
  checkpoint_timestamp NUMBER(19),
  checkpoint_sequence NUMBER(19),
  host VARCHAR2(510 CHAR),
  ip VARCHAR2(510 CHAR),
  pid NUMBER(19),
  instance VARCHAR2(510 CHAR),
  claimed_at NUMBER(19),
  released_at NUMBER(19),
  pinned VARCHAR2(510 CHAR),
  recents_from NUMBER(19),
  recents BLOB,
  CONSTRAINT {window_key} PRIMARY KEY (worker_id)
);

CREATE UNIQUE INDEX {token_index} ON {window} (token);

CREATE INDEX {until_index} ON {window} (filed_under, until_ms, worker_id);

CREATE INDEX {host_index} ON {window} (filed_under, host, until_ms, worker_id);

-- One row for each claim that has ended. A claim that goes on has no row, because its record contains everything.
CREATE TABLE {history} (
  worker_id NUMBER(19) NOT NULL,
  fence NUMBER(19) NOT NULL,
  from_ms NUMBER(19) NOT NULL,
  until_ms NUMBER(19) NOT NULL,
  continued_from NUMBER(19),
  host VARCHAR2(510 CHAR),
  ip VARCHAR2(510 CHAR),
  pid NUMBER(19) NOT NULL,
  instance VARCHAR2(510 CHAR),
  claimed_at NUMBER(19) NOT NULL,
  ended_at NUMBER(19) NOT NULL,
  ended_by VARCHAR2(16) NOT NULL,
  newest NUMBER(5) NOT NULL,
  CONSTRAINT {history_key} PRIMARY KEY (worker_id, fence)
);

-- Rows that may be pruned come first in this index. The newest row of a worker ID stays.
CREATE INDEX {ended_index} ON {history} (newest, until_ms, worker_id, fence);

-- The settings of the namespace, its id and key, the server that wrote last, era and quarantine. If many worker IDs of a pool have a
-- record, `next:512-1023` says where the search for an unused one in this pool begins.
CREATE TABLE {meta} (
  name VARCHAR2(80) NOT NULL,
  value VARCHAR2(4000) NOT NULL,
  version NUMBER(19) NOT NULL,
  CONSTRAINT {meta_key} PRIMARY KEY (name)
);

INSERT INTO {meta} (name, value, version)
SELECT 'schema', '2', 1 FROM dual WHERE NOT EXISTS (SELECT 1 FROM {meta} m WHERE m.name = 'schema');
