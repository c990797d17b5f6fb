-- The whole schema, run once, in the transaction that turns an empty file into a registry. application_id and user_version
-- are set beside it (database.ts), in the same transaction.
--
-- Times are Unix ms. Every index a claim looks into is ordered the way it is read, so that a claim reads a few entries at any
-- fill of the pool.

-- One row.
CREATE TABLE registry (
  -- Where ticks are long no window begins before it: the file that stood here before may have granted that time.
  made_at INTEGER NOT NULL
) STRICT;

CREATE TABLE namespace (
  namespace_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  layout TEXT NOT NULL,
  max_window INTEGER NOT NULL,
  max_clock_skew INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- How far the wall clock was ahead of the time since boot, in this boot, when it was last accepted here. Each namespace has
  -- its own limit, and so its own measure: what one accepts proves nothing to another.
  clock_boot TEXT,
  clock_ahead INTEGER
) STRICT;

-- The record of each worker ID that was ever claimed, or is pinned.
CREATE TABLE worker (
  namespace_id INTEGER NOT NULL,
  worker_id INTEGER NOT NULL,
  -- The pool that it was last claimed from: `512-1023`. Pools that are bands of one namespace (a datacenter each) keep their
  -- entries apart in the indexes: none reads past those of another.
  band TEXT,
  fence INTEGER NOT NULL,
  token TEXT,
  from_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  seen_clock INTEGER NOT NULL,
  clean INTEGER NOT NULL,
  floor_ms INTEGER NOT NULL,
  checkpoint_timestamp INTEGER,
  checkpoint_sequence INTEGER,
  host TEXT,
  ip TEXT,
  pid INTEGER,
  instance TEXT,
  claimed_at INTEGER,
  released_at INTEGER,
  pinned TEXT,
  -- The address of the host that it is pinned for.
  owner TEXT,
  recents_from INTEGER,
  -- Last: up to 64 KiB, which whoever reads only the columns before it need not touch.
  recents BLOB,
  PRIMARY KEY (namespace_id, worker_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX worker_by_token ON worker (namespace_id, token) WHERE token IS NOT NULL;

CREATE INDEX worker_by_until ON worker (namespace_id, band, until_ms, worker_id) WHERE pinned IS NULL;

CREATE INDEX worker_by_host ON worker (namespace_id, band, host, until_ms, worker_id) WHERE pinned IS NULL;

CREATE INDEX worker_by_owner ON worker (namespace_id, owner, until_ms, worker_id) WHERE owner IS NOT NULL;

-- Which numbers are filed under which name: src/registries/bands.ts.
CREATE TABLE band (
  namespace_id INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  name TEXT NOT NULL,
  filed INTEGER NOT NULL,
  PRIMARY KEY (namespace_id, first)
) STRICT, WITHOUT ROWID;

-- The numbers without a record, as ranges that do not overlap: the lowest unused one is one seek away, in any pool.
CREATE TABLE gap (
  -- The columns of the key first, and in its order: otherwise the integrity check of some SQLite 3.40 calls the table damaged.
  namespace_id INTEGER NOT NULL,
  last INTEGER NOT NULL,
  first INTEGER NOT NULL,
  PRIMARY KEY (namespace_id, last)
) STRICT, WITHOUT ROWID;

-- A row a claim. While a claim goes on, the end of its window is the record's; here it is as it was at the claim.
CREATE TABLE history (
  namespace_id INTEGER NOT NULL,
  worker_id INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  from_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  continued_from INTEGER,
  host TEXT NOT NULL,
  ip TEXT NOT NULL,
  pid INTEGER NOT NULL,
  instance TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  ended_at INTEGER,
  ended_by TEXT,
  newest INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (namespace_id, worker_id, fence)
) STRICT, WITHOUT ROWID;

-- What may be pruned, and only that: the newest row of a worker ID stays.
CREATE INDEX history_by_until ON history (namespace_id, until_ms) WHERE newest = 0;

-- What operators did to the registry as a whole.
CREATE TABLE operation (
  operation_id INTEGER PRIMARY KEY,
  done_at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT;
