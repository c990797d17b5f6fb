-- The whole schema. One transaction runs it, sets application_id and user_version (schema.ts), and so turns an empty file into a registry.
--
-- Times are Unix ms. Every index that a claim reads has the order in which the claim reads it. So a claim reads only a few entries of each
-- index, even if very many worker IDs are in use.

-- One row.
CREATE TABLE registry (
  -- If a tick is longer than 1 ms, no window begins before this, because an earlier file at this path may have granted that time.
  made_at INTEGER NOT NULL
) STRICT;

CREATE TABLE namespace (
  namespace_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  -- Random. Two files with the same id are copies.
  id TEXT NOT NULL,
  receipt_key TEXT NOT NULL,
  layout TEXT NOT NULL,
  max_window INTEGER NOT NULL,
  max_clock_skew INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- Since the file was put back last, as far as a holder proved it: src/rule/era.ts.
  era TEXT NOT NULL,
  quarantine_end INTEGER NOT NULL,
  opens_at INTEGER NOT NULL,
  -- How far the wall clock was ahead of the time since boot, in this boot, when the namespace last accepted it. Each namespace has its own
  -- limit, so one may refuse what another accepts.
  clock_boot TEXT,
  clock_ahead INTEGER
) STRICT;

-- Namespaces that a holder proved and that do not exist: src/rule/unknown-namespace.ts.
CREATE TABLE unknown_namespace (
  name TEXT PRIMARY KEY,
  era TEXT NOT NULL,
  quarantine_end INTEGER NOT NULL,
  opens_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each worker ID that was ever claimed, or is pinned.
CREATE TABLE worker (
  namespace_id INTEGER NOT NULL,
  worker_id INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  -- A hash of the holder's token.
  token TEXT,
  from_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  seen_clock INTEGER NOT NULL,
  clean INTEGER NOT NULL,
  known_from_ms INTEGER NOT NULL,
  -- The begin of the claim, if the window begins later than the claim, as after a quarantine.
  began_ms INTEGER,
  checkpoint_timestamp INTEGER,
  checkpoint_sequence INTEGER,
  host TEXT,
  ip TEXT,
  pid INTEGER,
  instance TEXT,
  claimed_at INTEGER,
  released_at INTEGER,
  pinned TEXT,
  -- The address of the host for which it is pinned.
  owner TEXT,
  era TEXT,
  renewals INTEGER NOT NULL DEFAULT 0,
  turn TEXT,
  recents_from INTEGER,
  -- This column is the last one because it has up to 64 KiB. A read of only the other columns skips it.
  recents BLOB,
  PRIMARY KEY (namespace_id, worker_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX worker_by_token ON worker (namespace_id, token) WHERE token IS NOT NULL;

-- The last column is in the index so that it can be read without the record.
CREATE INDEX worker_by_until ON worker (namespace_id, until_ms, worker_id, pinned) WHERE pinned IS NULL;

CREATE INDEX worker_by_host ON worker (namespace_id, host, until_ms, worker_id, pinned) WHERE pinned IS NULL;

CREATE INDEX worker_by_owner ON worker (namespace_id, owner, until_ms, worker_id) WHERE owner IS NOT NULL;

-- The worker IDs without a record, as ranges that do not overlap. One seek finds the lowest one of any pool.
CREATE TABLE gap (
  -- The columns of the key come first, in the order of the key. Otherwise the integrity check of some SQLite 3.40 reports damage.
  namespace_id INTEGER NOT NULL,
  last INTEGER NOT NULL,
  first INTEGER NOT NULL,
  PRIMARY KEY (namespace_id, last)
) STRICT, WITHOUT ROWID;

-- One row for each claim that has ended. A claim that goes on has no row, because its record contains everything.
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
  ended_at INTEGER NOT NULL,
  ended_by TEXT NOT NULL,
  newest INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (namespace_id, worker_id, fence)
) STRICT, WITHOUT ROWID;

-- Only rows that may be pruned: the newest row of a worker ID stays.
CREATE INDEX history_by_until ON history (namespace_id, until_ms) WHERE newest = 0;

-- What operators did with the whole registry.
CREATE TABLE operation (
  operation_id INTEGER PRIMARY KEY,
  done_at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT;
