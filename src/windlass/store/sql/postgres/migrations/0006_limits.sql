-- Flow control: concurrency limits per key, rate limits and ageing per phase, debounced and throttled enqueues.
--
-- A job with a limit (flag 128) waits in job_later with the reason 'limited': first nobody has looked at it (gate IS NULL), then it
-- stands at its gate until a place is free. One that waits for its phase's rate has the reason 'paced'. Claims know
-- nothing of all this: a job is in `job` only once it has been let in.
--
-- Adding the columns and changing the CHECKs reads no row: each new CHECK allows all that the old one did (hence NOT VALID).

ALTER TABLE windlass.job
    ADD COLUMN risen smallint;
ALTER TABLE windlass.job_later
    ADD COLUMN risen smallint,
    ADD COLUMN gate text,
    DROP CONSTRAINT job_later_pending,
    ADD CONSTRAINT job_later_pending CHECK (
        (reason IN ('scheduled', 'retry', 'inbox', 'limited', 'paced') AND pending = 0)
        OR (reason IN ('waiting', 'unlinked') AND pending > 0)
    ) NOT VALID,
    ADD CONSTRAINT job_later_gate CHECK (gate IS NULL OR reason = 'limited') NOT VALID;
ALTER TABLE windlass.job_done
    ADD COLUMN limits jsonb;
CREATE INDEX job_later_unsorted ON windlass.job_later (id) WHERE reason = 'limited' AND gate IS NULL;
CREATE INDEX job_later_limited ON windlass.job_later (phase, gate, lane, run_at, id) WHERE reason = 'limited' AND gate IS NOT NULL;
CREATE INDEX job_later_paced ON windlass.job_later (phase, lane, run_at, id) WHERE reason = 'paced';

-- What a phase allows, as the last instance that serves it said (before any has, as the first limited job said). `tokens` is
-- what the bucket of the rate limit held at filled_at.
CREATE TABLE windlass.flow (
    phase text NOT NULL,
    told_at timestamptz NOT NULL,
    filled_at timestamptz NOT NULL,
    tokens double precision NOT NULL,
    rate double precision,
    age double precision,
    lim integer,
    burst integer,
    key text,
    CONSTRAINT flow_pkey PRIMARY KEY (phase),
    CONSTRAINT flow_lim CHECK (lim >= 1),
    CONSTRAINT flow_rate CHECK (rate > 0 AND burst >= 1),
    CONSTRAINT flow_burst CHECK ((rate IS NULL) = (burst IS NULL)),
    CONSTRAINT flow_age CHECK (age > 0)
) WITH (fillfactor = 50);

-- One row per key that limited jobs have: how many of them are let in. Whoever changes that, or lets the next one in, has locked
-- the row; a job is only put at a gate by somebody who holds its lock, so that nobody who frees a place can miss it.
CREATE TABLE windlass.gate (
    phase text NOT NULL,
    key text NOT NULL,
    used_at timestamptz NOT NULL,
    admitted integer NOT NULL,
    CONSTRAINT gate_pkey PRIMARY KEY (phase, key),
    CONSTRAINT gate_admitted CHECK (admitted >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The limits that a job brought along, one row per phase of it that has any; there while the job lives. `admitted`: it has a
-- place at its gate, which it keeps while it is paced, queued or processing. `gone`: it was ended by a transaction that may stay open for
-- long and must not lock the gate; upkeep frees the place after the commit.
CREATE TABLE windlass.job_limit (
    job uuid NOT NULL,
    rate double precision,
    lim integer,
    burst integer,
    admitted boolean NOT NULL DEFAULT FALSE,
    gone boolean NOT NULL DEFAULT FALSE,
    phase text NOT NULL,
    key text NOT NULL,
    CONSTRAINT job_limit_pkey PRIMARY KEY (job, phase),
    CONSTRAINT job_limit_some CHECK (lim IS NOT NULL OR rate IS NOT NULL),
    CONSTRAINT job_limit_lim CHECK (lim >= 1),
    CONSTRAINT job_limit_rate CHECK (rate > 0 AND burst >= 1),
    CONSTRAINT job_limit_burst CHECK ((rate IS NULL) = (burst IS NULL)),
    CONSTRAINT job_limit_place CHECK (lim IS NOT NULL OR NOT admitted),
    CONSTRAINT job_limit_gone CHECK (admitted OR NOT gone)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_limit_admitted ON windlass.job_limit (phase, key) WHERE admitted;
CREATE INDEX job_limit_gone ON windlass.job_limit (job) WHERE gone;

-- Two more scopes: the job that a debounced enqueue may still replace, and the one job of a period.
ALTER TABLE windlass.job_key
    DROP CONSTRAINT job_key_scope,
    DROP CONSTRAINT job_key_expiry,
    ADD CONSTRAINT job_key_scope CHECK (scope IN ('live', 'idempotent', 'throttle', 'debounce')) NOT VALID,
    ADD CONSTRAINT job_key_expiry CHECK ((scope IN ('idempotent', 'throttle', 'debounce')) = (expires_at IS NOT NULL)) NOT VALID;
