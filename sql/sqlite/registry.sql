-- The time at which the registry was created.

-- name: make
INSERT INTO registry (made_at) VALUES ($made_at);

-- name: made
SELECT made_at FROM registry;
