-- Keys of requests. A key is taken in the transaction that stores the jobs: a request with the same key waits for that transaction, and then
-- reads what it left.

-- name: request_key.take
-- Takes a key of a scope, if it is free, or if it was taken too long ago; no row if it is taken.
INSERT INTO windlass.request_key AS k (scope, key, created_at, body_hash)
SELECT :scope, :key, c.at, :body_hash
FROM (SELECT {{now}} AS at) AS c
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (scope, key) DO UPDATE
SET created_at = excluded.created_at,
    body_hash = excluded.body_hash,
    response = NULL
WHERE k.created_at < excluded.created_at - {{seconds(:lasts)}}
RETURNING key;

-- name: request_key.read
-- The request with a key, and its response.
SELECT k.body_hash, k.response
FROM windlass.request_key AS k
WHERE k.scope = :scope
    AND k.key = :key;

-- name: request_key.fill
-- Notes the response of a request, in the transaction that took its key.
UPDATE windlass.request_key AS k
SET response = :response
WHERE k.scope = :scope
    AND k.key = :key;

-- name: request_key.prune
-- Removes keys that were taken too long ago.
DELETE FROM windlass.request_key AS k
WHERE k.created_at < {{now}} - {{seconds(:lasts)}};
