-- What `snowlease init` runs, section by section from the stored version up; `init --print` shows it. Names in braces are this
-- namespace's: src/registries/sql/statements.ts. Each statement may be run again: this database commits each by itself, and what is
-- there already is left as it is. An empty text is none here, so texts that may be empty may be missing.
--
-- Times are Unix ms by this database's clock, unless a name says otherwise.

-- name: 1
-- As westid makes it, and no constraint more: its Java processes read any violation as "taken". One row for each number that is taken.
CREATE TABLE {assign} (
  worker_id INT NOT NULL,
  pid INT NOT NULL,
  ip VARCHAR2(15) NOT NULL,
  hostname VARCHAR2(60) NOT NULL,
  create_time TIMESTAMP NOT NULL,
  CONSTRAINT {assign_key} PRIMARY KEY (worker_id)
);

-- The record of each worker ID that was ever claimed, is pinned, or was once taken by another program. Labels are of up to 255
-- characters, of which the character set UTF8 counts some twice.
CREATE TABLE {window} (
  worker_id NUMBER(19) NOT NULL,
  -- Every write draws another one. An operation that decided by an earlier version decides again.
  version NUMBER(19) NOT NULL,
  -- In which a holder last wrote it: `Era.era` in src/rule/era.ts.
  era VARCHAR2(64),
  -- The name of its band: `512-1023`.
  band VARCHAR2(64),
  -- The name under which the indexes list it: its band's, `foreign`, or `owner:ADDRESS` while it is pinned for a host. NULL while it
  -- is pinned without an owner: no claim looks for it. Each pool has names of its own, so no claim reads past entries of another pool.
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

-- One row for each claim. While a claim goes on, the end of its window is in its record; here is the end that the claim stored.
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
  ended_at NUMBER(19),
  ended_by VARCHAR2(16),
  newest NUMBER(5) NOT NULL,
  CONSTRAINT {history_key} PRIMARY KEY (worker_id, fence)
);

-- What may be pruned comes first in it: the newest row of a worker ID stays.
CREATE INDEX {ended_index} ON {history} (newest, until_ms, worker_id, fence);

-- The settings of the namespace, its id and key, the server that wrote last, era and quarantine; for each pool `pool:512-1023` a number below which
-- every number of the pool has a record; and `band:512`, which numbers are filed under which name: src/registries/sql/bands.ts.
CREATE TABLE {meta} (
  name VARCHAR2(80) NOT NULL,
  value VARCHAR2(4000) NOT NULL,
  version NUMBER(19) NOT NULL,
  CONSTRAINT {meta_key} PRIMARY KEY (name)
);

INSERT INTO {meta} (name, value, version)
SELECT 'schema', '1', 1 FROM dual WHERE NOT EXISTS (SELECT 1 FROM {meta} m WHERE m.name = 'schema');
