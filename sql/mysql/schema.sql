-- What `snowlease init` runs, section by section from the stored version up; `init --print` shows it. Names in braces are this
-- namespace's: src/registries/sql/statements.ts. Each statement may be run again: this database commits each by itself.
--
-- Times are Unix ms by this database's clock, unless a name says otherwise.

-- name: 1
-- As westid makes it, and no constraint more: its Java processes read any violation as "taken". One row for each number that is taken.
CREATE TABLE IF NOT EXISTS {assign} (
  worker_id INT NOT NULL,
  pid INT NOT NULL,
  ip VARCHAR(15) NOT NULL,
  hostname VARCHAR(60) NOT NULL,
  create_time TIMESTAMP NOT NULL,
  PRIMARY KEY (worker_id)
) ENGINE = InnoDB;

-- The record of each worker ID that was ever claimed, is pinned, or was once taken by another program.
CREATE TABLE IF NOT EXISTS {window} (
  worker_id BIGINT NOT NULL,
  -- Every write draws another one. An operation that decided by an earlier version decides again.
  version BIGINT NOT NULL,
  -- In which a holder last wrote it: `Era.era` in src/rule/era.ts.
  era VARCHAR(64),
  -- The name of its band: `512-1023`.
  band VARCHAR(64),
  -- The name under which the indexes list it: its band's, `foreign`, or `owner:ADDRESS` while it is pinned for a host. NULL while it
  -- is pinned without an owner: no claim looks for it. Each pool has names of its own, so no claim reads past entries of another pool.
  filed_under VARCHAR(64),
  fence BIGINT NOT NULL,
  -- A hash of the holder's token.
  token VARCHAR(64),
  renewals BIGINT NOT NULL DEFAULT 0,
  turn VARCHAR(64),
  from_ms BIGINT NOT NULL,
  until_ms BIGINT NOT NULL,
  seen_clock BIGINT NOT NULL,
  clean SMALLINT NOT NULL,
  known_from_ms BIGINT NOT NULL,
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
  recents MEDIUMBLOB,
  PRIMARY KEY (worker_id),
  UNIQUE KEY {token_index} (token),
  KEY {until_index} (filed_under, until_ms, worker_id),
  KEY {host_index} (filed_under, host, until_ms, worker_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each claim. While a claim goes on, the end of its window is in its record; here is the end that the claim stored.
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
  PRIMARY KEY (worker_id, fence),
  -- What may be pruned comes first in it: the newest row of a worker ID stays.
  KEY {ended_index} (newest, until_ms, worker_id, fence)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The settings of the namespace, its id and key, the server that wrote last, era and quarantine; for each pool `pool:512-1023` a number below which
-- every number of the pool has a record; and `band:512`, which numbers are filed under which name: src/registries/sql/bands.ts.
CREATE TABLE IF NOT EXISTS {meta} (
  name VARCHAR(80) NOT NULL,
  value TEXT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO {meta} (name, value, version) VALUES ('schema', '1', 1);
