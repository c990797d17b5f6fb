-- When the registry was made.

-- name: make
INSERT INTO registry (made_at) VALUES ($made_at);

-- name: made
SELECT made_at FROM registry;
