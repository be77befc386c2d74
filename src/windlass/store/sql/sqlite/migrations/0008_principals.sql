-- Who asked for a job; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_principal (
    job TEXT NOT NULL PRIMARY KEY,
    alive_at INTEGER NOT NULL,
    expires_at INTEGER,
    key_id TEXT,
    token TEXT,
    claims TEXT NOT NULL,
    CONSTRAINT principal_sealed CHECK ((token IS NULL) = (key_id IS NULL))
) STRICT;
CREATE INDEX windlass_principal_erasable ON windlass_principal (alive_at);
ALTER TABLE windlass_schedule ADD COLUMN principal TEXT;
