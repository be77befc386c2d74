-- Tokens of the REST API; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_api_token (
    id TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    subject TEXT,
    issuer TEXT,
    tenant TEXT,
    created_by TEXT NOT NULL,
    roles TEXT NOT NULL,
    CONSTRAINT api_token_hash CHECK (length(hash) = 64)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX windlass_api_token_name ON windlass_api_token (name) WHERE revoked_at IS NULL;
