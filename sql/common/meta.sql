-- The fixed properties of a namespace and what its operations read first: era, quarantine, the server's identity and clock.

-- name: read
SELECT name, value, version, {clock} AS clock, {identity} AS identity FROM {meta};

-- name: there
-- Whether a table in another place contains a namespace, or the note of one.
SELECT name FROM {place} WHERE name IN ('layout', 'era');

-- name: add
INSERT INTO {meta} (name, value, version) VALUES (:name, :value, :new_version);

-- name: set
UPDATE {meta} SET value = :value, version = :new_version WHERE name = :name AND version = :version;

-- name: set-era
-- Under the condition of the era that was read, and of the server that it was read from.
UPDATE {meta} SET value = :value, version = :new_version
WHERE name = 'era' AND value = :present_era AND {identity} = :identity;

-- name: hold
-- Leaves the namespace as it is, and locks it until the transaction ends.
UPDATE {meta} SET version = :new_version WHERE name = 'id' AND value = :id;

-- name: erase
-- All rows of the namespace. The remaining row is about the tables.
DELETE FROM {meta} WHERE name <> 'schema';

-- name: touch
-- Changes nothing that a reader looks at, but needs what a change needs: the rights, and a server that accepts writes.
UPDATE {meta} SET version = :new_version WHERE name = 'schema';

-- name: used
-- A row if a worker ID was ever claimed, as far as one of the other tables still shows it.
SELECT name FROM {meta} WHERE name = 'schema' AND (
  EXISTS (SELECT 1 FROM {window} WHERE fence > 0)
  OR EXISTS (SELECT 1 FROM {history})
  OR EXISTS (SELECT 1 FROM {assign} WHERE ip LIKE 'lease@%')
);
