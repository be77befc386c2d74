-- API tokens: found by their ids, compared by their hashes.

-- name: token.put
-- Stores a token; no row if a token of this name is in use.
INSERT INTO windlass.api_token (id, created_at, expires_at, name, hash, subject, issuer, tenant, created_by, roles)
SELECT :id::uuid, c.at, c.at + {{seconds(:lasts::double precision)}}, :name, :hash, :subject, :issuer, :tenant, :created_by, :roles::jsonb
FROM (SELECT {{now}} AS at) AS c
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT DO NOTHING
RETURNING id;

-- name: token.get
-- One token with its hash, and whether its last use was noted more than a minute ago.
SELECT {{token_columns(t)}}, t.hash, (t.last_used_at IS NULL OR t.last_used_at <= {{now_once}} - {{seconds(60)}}) AS is_unnoted
FROM windlass.api_token AS t
WHERE t.id = :id::uuid;

-- name: token.list
-- All tokens, newest first.
SELECT {{token_columns(t)}}
FROM windlass.api_token AS t
ORDER BY t.id DESC
LIMIT :limit;

-- name: token.named
-- The token in use of a name.
SELECT t.id
FROM windlass.api_token AS t
WHERE t.name = :name
    AND t.revoked_at IS NULL;

-- name: token.revoke
-- Ends a token for good; no row if it had ended.
UPDATE windlass.api_token AS t
SET revoked_at = {{now}}
WHERE t.id = :id::uuid
    AND t.revoked_at IS NULL
RETURNING id;

-- name: token.use
-- Notes a use, at most once a minute.
UPDATE windlass.api_token AS t
SET last_used_at = {{now}}
WHERE t.id = :id::uuid
    AND (t.last_used_at IS NULL OR t.last_used_at <= {{now_once}} - {{seconds(60)}});

-- fragment: token_columns(token)
-- All columns of a token but its hash.
{token}.id, {token}.name, {token}.roles::text AS roles, {token}.subject, {token}.issuer, {token}.tenant, {token}.created_by, {token}.created_at,
    {token}.expires_at, {token}.last_used_at, {token}.revoked_at,
    ({token}.expires_at IS NOT NULL AND {token}.expires_at <= {{now_once}}) AS is_expired
