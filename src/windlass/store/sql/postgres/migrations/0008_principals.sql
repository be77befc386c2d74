-- Who asked for a job, beside the job: one that nobody in particular asked for pays nothing. The flag 256 of a job's row says that
-- it has one; a job with the flag and without a row here had one that was erased. `alive_at` is when its job was last known to
-- live, and once it has ended, its end: what is older than the retention is looked at, and each row about once a day. `token` is a
-- raw token, sealed for this job with the key of that id; there is no other place for one.
CREATE TABLE windlass.principal (
    job uuid NOT NULL,
    alive_at timestamptz NOT NULL,
    expires_at timestamptz,
    key_id text,
    token text,
    claims jsonb NOT NULL,
    CONSTRAINT principal_pkey PRIMARY KEY (job),
    CONSTRAINT principal_sealed CHECK ((token IS NULL) = (key_id IS NULL))
);
CREATE INDEX principal_erasable ON windlass.principal (alive_at);

-- Jobs of a schedule are asked for by a service; NULL is one of the schedule's name, without rights.
ALTER TABLE windlass.schedule ADD COLUMN principal jsonb;
