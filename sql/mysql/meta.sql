-- Statements that ../common/meta.sql cannot say in this dialect.

-- name: read
SELECT
  name, value, version,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS clock,
  {identity} AS identity
FROM {meta};

-- name: exists
-- Whether the tables were ever made.
SELECT COUNT(*) AS present FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :table_name;

-- name: lock
-- One `init` at a time. It goes with the connection, whatever the schema's statements commit.
SELECT GET_LOCK(CONCAT('snowlease ', :table_name), {lock_timeout}) AS locked;

-- name: unlock
SELECT RELEASE_LOCK(CONCAT('snowlease ', :table_name)) AS unlocked;
