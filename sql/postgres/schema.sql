-- What `snowlease init` runs, section by section from the stored version up; `init --print` shows it. Names in braces are this
-- namespace's: src/registries/sql/statements.ts. Indexes and constraints have names that no table of another namespace can have.
--
-- Times are Unix ms by this database's clock, unless a name says otherwise.

-- name: 1
-- As westid makes it, and no constraint more: its Java processes read any violation as "taken". A row a number that is taken.
CREATE TABLE IF NOT EXISTS {assign} (
  worker_id INT NOT NULL,
  pid INT NOT NULL,
  ip VARCHAR(15) NOT NULL,
  hostname VARCHAR(60) NOT NULL,
  create_time TIMESTAMP NOT NULL,
  CONSTRAINT {assign_key} PRIMARY KEY (worker_id)
);

-- The record of each worker ID that was ever claimed, is pinned, or was once seen in foreign hands.
CREATE TABLE IF NOT EXISTS {window} (
  worker_id BIGINT NOT NULL,
  -- Raised by every write: whoever decided by an older one decides again.
  version BIGINT NOT NULL,
  era BIGINT NOT NULL,
  -- The name of its number's band.
  pool VARCHAR(64),
  -- Where a claim looks for it: its band, `foreign`, `owner:ADDRESS` while it is pinned for a host, or nowhere while it is pinned
  -- for nobody. Pools keep their entries apart in the indexes: none reads past those of another.
  filed VARCHAR(64),
  fence BIGINT NOT NULL,
  token VARCHAR(64),
  from_ms BIGINT NOT NULL,
  until_ms BIGINT NOT NULL,
  seen_clock BIGINT NOT NULL,
  clean SMALLINT NOT NULL,
  floor_ms BIGINT NOT NULL,
  checkpoint_timestamp BIGINT,
  checkpoint_sequence BIGINT,
  host VARCHAR(255),
  ip VARCHAR(255),
  pid BIGINT,
  instance VARCHAR(255),
  claimed_at BIGINT,
  released_at BIGINT,
  pinned TEXT,
  recents_from BIGINT,
  recents BYTEA,
  CONSTRAINT {window_key} PRIMARY KEY (worker_id)
);

CREATE UNIQUE INDEX IF NOT EXISTS {token_index} ON {window} (token);

CREATE INDEX IF NOT EXISTS {until_index} ON {window} (filed, until_ms, worker_id) WHERE filed IS NOT NULL;

CREATE INDEX IF NOT EXISTS {host_index} ON {window} (filed, host, until_ms, worker_id) WHERE filed IS NOT NULL;

-- A row a claim. While a claim goes on, the end of its window is the record's; here it is as it was at the claim.
CREATE TABLE IF NOT EXISTS {history} (
  worker_id BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  from_ms BIGINT NOT NULL,
  until_ms BIGINT NOT NULL,
  continued_from BIGINT,
  host VARCHAR(255) NOT NULL,
  ip VARCHAR(255) NOT NULL,
  pid BIGINT NOT NULL,
  instance VARCHAR(255) NOT NULL,
  claimed_at BIGINT NOT NULL,
  ended_at BIGINT,
  ended_by VARCHAR(16),
  newest SMALLINT NOT NULL,
  CONSTRAINT {history_key} PRIMARY KEY (worker_id, fence)
);

-- What may be pruned, and only that: the newest row of a worker ID stays.
CREATE INDEX IF NOT EXISTS {ended_index} ON {history} (until_ms, worker_id, fence) WHERE newest = 0;

-- What is fixed for the namespace, which server wrote last, era and quarantine; for each pool `pool:512-1023` a number below which
-- every number of the pool has a record; and `band:512`, which numbers are filed under which name: src/registries/sql/bands.ts.
CREATE TABLE IF NOT EXISTS {meta} (
  name VARCHAR(80) NOT NULL,
  value TEXT NOT NULL,
  version BIGINT NOT NULL,
  CONSTRAINT {meta_key} PRIMARY KEY (name)
);

INSERT INTO {meta} (name, value, version) VALUES ('schema', '1', 1) ON CONFLICT (name) DO NOTHING;
