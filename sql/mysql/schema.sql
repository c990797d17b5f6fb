-- `snowlease init` runs these statements, and `init --print` shows them. Names in braces are those of this namespace:
-- src/registries/sql/statements.ts. Each statement can be repeated, because this database commits each one separately.
--
-- Times are Unix ms by this database's clock, unless a name says otherwise.

-- name: 2
-- The table as westid makes it, without any further constraint, because its Java processes read any violation as "taken". It has one row
-- for each worker ID that is taken.
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
  -- Every write draws a new version. An operation that decided by an earlier version decides again.
  version BIGINT NOT NULL,
  -- The era in which a holder last wrote the record: `Era.era` in src/rule/era.ts.
  era VARCHAR(64),
  -- The name under which the indexes list the record. `pool`: for all claims. `foreign`: another program has the worker ID, or it was given
  -- back to such programs. `owner:ADDRESS`: it is pinned for a host. NULL: it is pinned without an owner, and no claim looks for it.
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
  -- The begin of the claim, if the window begins later than the claim, as after a quarantine.
  began_ms BIGINT,
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

-- One row for each claim that has ended. A claim that goes on has no row, because its record contains everything.
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
  ended_at BIGINT NOT NULL,
  ended_by VARCHAR(16) NOT NULL,
  newest SMALLINT NOT NULL,
  PRIMARY KEY (worker_id, fence),
  -- Rows that may be pruned come first in this index. The newest row of a worker ID stays.
  KEY {ended_index} (newest, until_ms, worker_id, fence)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The settings of the namespace, its id and key, the server that wrote last, era and quarantine. If many worker IDs of a pool have a
-- record, `next:512-1023` says where the search for an unused one in this pool begins.
CREATE TABLE IF NOT EXISTS {meta} (
  name VARCHAR(80) NOT NULL,
  value TEXT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO {meta} (name, value, version) VALUES ('schema', '2', 1);
