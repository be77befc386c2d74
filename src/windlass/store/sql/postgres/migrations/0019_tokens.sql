-- Tokens of the REST API. Only their hashes are kept: a token is shown once, when it is made.
CREATE TABLE windlass.api_token (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    name text NOT NULL,
    hash text NOT NULL,
    subject text,
    issuer text,
    tenant text,
    created_by text NOT NULL,
    roles jsonb NOT NULL,
    CONSTRAINT api_token_pkey PRIMARY KEY (id),
    CONSTRAINT api_token_hash CHECK (length(hash) = 64)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX api_token_name ON windlass.api_token (name) WHERE revoked_at IS NULL;
