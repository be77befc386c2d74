-- Requests that submitted jobs with a key of the client's: what the first one was, and its response. A repeat gets the same response.
CREATE TABLE windlass.request_key (
    scope text NOT NULL,
    key text NOT NULL,
    created_at timestamptz NOT NULL,
    body_hash text NOT NULL,
    response text,
    CONSTRAINT request_key_pkey PRIMARY KEY (scope, key)
);
CREATE INDEX request_key_created ON windlass.request_key (created_at);
