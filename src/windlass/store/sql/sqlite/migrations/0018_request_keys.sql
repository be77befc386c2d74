-- Requests that submitted jobs with a key of the client's; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_request_key (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body_hash TEXT NOT NULL,
    response TEXT,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_request_key_created ON windlass_request_key (created_at);
