-- The tables of a job's life. Reasons and measurements: docs/decisions/0001-data-model.md.

-- Live jobs: queued (token IS NULL) or processing. Kept small and HOT: a claim changes no indexed column, so no index
-- may name token, flags, cancel_at, claimed_at or attempt, and half of every page is left free for the claim's copy.
CREATE TABLE windlass.job (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ready_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    token bigint,
    claimed_at timestamptz,
    started_at timestamptz,
    cancel_at timestamptz,
    lane smallint NOT NULL,
    generation smallint NOT NULL DEFAULT 1,
    attempt smallint NOT NULL DEFAULT 0,
    crashes smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL,
    flags smallint NOT NULL DEFAULT 0,
    kind text NOT NULL,
    phase text NOT NULL,
    correlation text,
    args jsonb NOT NULL,
    CONSTRAINT job_pkey PRIMARY KEY (id),
    CONSTRAINT job_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT job_held CHECK ((token IS NULL) = (claimed_at IS NULL)),
    CONSTRAINT job_cancel_needs_holder CHECK (cancel_at IS NULL OR token IS NOT NULL),
    CONSTRAINT job_counters CHECK (generation >= 1 AND attempt >= 0 AND crashes >= 0 AND max_attempts >= 1)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX job_ready ON windlass.job (phase, lane, ready_at, id);

-- Everything that is not ready: scheduled, retrying, waiting for parents, and the inbox that callers' own transactions
-- insert into (they may commit long after their statement; the promoter gives such a job a fresh ready_at).
CREATE TABLE windlass.job_later (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    run_at timestamptz NOT NULL,
    started_at timestamptz,
    pending integer NOT NULL DEFAULT 0,
    lane smallint NOT NULL,
    generation smallint NOT NULL DEFAULT 1,
    attempt smallint NOT NULL DEFAULT 0,
    crashes smallint NOT NULL DEFAULT 0,
    max_attempts smallint NOT NULL,
    flags smallint NOT NULL DEFAULT 0,
    reason text NOT NULL,
    kind text NOT NULL,
    phase text NOT NULL,
    correlation text,
    args jsonb NOT NULL,
    CONSTRAINT job_later_pkey PRIMARY KEY (id),
    CONSTRAINT job_later_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT job_later_pending CHECK (
        (reason IN ('scheduled', 'retry', 'inbox') AND pending = 0)
        OR (reason IN ('waiting', 'unlinked') AND pending > 0)
    ),
    CONSTRAINT job_later_counters CHECK (generation >= 1 AND attempt >= 0 AND crashes >= 0 AND max_attempts >= 1)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_later_due ON windlass.job_later (run_at, id) WHERE reason IN ('scheduled', 'retry', 'inbox');
CREATE INDEX job_later_unlinked ON windlass.job_later (id) WHERE reason = 'unlinked';

-- Ended jobs, written by the statement that deletes the live row. One partition a day, created ahead of time.
CREATE TABLE windlass.job_done (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    token bigint,
    lane smallint NOT NULL,
    generation smallint NOT NULL,
    attempt smallint NOT NULL,
    crashes smallint NOT NULL,
    max_attempts smallint NOT NULL,
    flags smallint NOT NULL,
    state text NOT NULL,
    kind text NOT NULL,
    phase text NOT NULL,
    correlation text,
    key text,
    args jsonb NOT NULL,
    result jsonb,
    error jsonb,
    traceback text,
    outputs jsonb,
    progress jsonb,
    CONSTRAINT job_done_state CHECK (state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT job_done_completed CHECK (state <> 'completed' OR (token IS NOT NULL AND claimed_at IS NOT NULL)),
    CONSTRAINT job_done_failed CHECK (state <> 'failed' OR error IS NOT NULL),
    CONSTRAINT job_done_result CHECK (result IS NULL OR state = 'completed')
) PARTITION BY RANGE (finished_at);
CREATE INDEX job_done_id ON windlass.job_done (id);
CREATE INDEX job_done_ended_badly ON windlass.job_done (state, id) WHERE state <> 'completed';
CREATE INDEX job_done_kind ON windlass.job_done (kind, id) WHERE state <> 'completed';

-- History does not change: only a manual retry (a DELETE and an INSERT into job) leaves an end state.
CREATE FUNCTION windlass.refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % is %: it cannot become %; an ended job leaves its state only by retry',
        OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER job_done_is_final BEFORE UPDATE ON windlass.job_done
    FOR EACH ROW EXECUTE FUNCTION windlass.refuse_update();

-- One row per claimed batch; its number is the fencing token. CACHE 1: sessions must not hand numbers out of order.
-- (phase, lanes, los..his) finds the batch's jobs through job_ready without an array of ids in every claim. One range a
-- lane: a single one from an urgent new job to an old backlog of another lane covers the whole queue (280 ms at 1M rows).
CREATE SEQUENCE windlass.token AS bigint CACHE 1;
CREATE TABLE windlass.claim (
    token bigint NOT NULL DEFAULT nextval('windlass.token'),
    instance uuid NOT NULL,
    at timestamptz NOT NULL,
    lanes smallint[] NOT NULL,
    los timestamptz[] NOT NULL,
    his timestamptz[] NOT NULL,
    phase text NOT NULL,
    CONSTRAINT claim_pkey PRIMARY KEY (token),
    CONSTRAINT claim_ranges CHECK (cardinality(lanes) = cardinality(los) AND cardinality(lanes) = cardinality(his))
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX claim_of_instance ON windlass.claim (instance);

-- One row per running process. A lease is judged by the holder's own length, by this database's clock.
CREATE TABLE windlass.instance (
    id uuid NOT NULL,
    started_at timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    dead_at timestamptz,
    lease interval NOT NULL,
    info jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT instance_pkey PRIMARY KEY (id),
    CONSTRAINT instance_lease CHECK (lease > interval '0')
) WITH (fillfactor = 50);

-- What phases produced, once per (job, generation, phase, name). The output named '' says that the phase is done, and
-- next_phase what comes then, so that any instance can move the job on after a crash.
CREATE TABLE windlass.output (
    job uuid NOT NULL,
    generation smallint NOT NULL,
    phase text NOT NULL,
    name text NOT NULL,
    at timestamptz NOT NULL,
    next_max_attempts smallint,
    next_phase text,
    value jsonb NOT NULL,
    CONSTRAINT output_pkey PRIMARY KEY (job, generation, phase, name),
    CONSTRAINT output_next CHECK ((next_phase IS NULL) = (next_max_attempts IS NULL)),
    CONSTRAINT output_next_is_main CHECK (next_phase IS NULL OR name = '')
);

CREATE TABLE windlass.checkpoint (
    job uuid NOT NULL,
    generation smallint NOT NULL,
    token bigint NOT NULL,
    done bigint NOT NULL,
    total bigint,
    at timestamptz NOT NULL,
    position jsonb,
    CONSTRAINT checkpoint_pkey PRIMARY KEY (job),
    CONSTRAINT checkpoint_done CHECK (done >= 0 AND (total IS NULL OR total >= done))
) WITH (fillfactor = 50);

-- Attempts that did not end their job; the last one is the row of job_done itself.
CREATE TABLE windlass.attempt (
    job uuid NOT NULL,
    token bigint NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    generation smallint NOT NULL,
    attempt smallint NOT NULL,
    outcome text NOT NULL,
    phase text NOT NULL,
    error jsonb,
    traceback text,
    CONSTRAINT attempt_pkey PRIMARY KEY (job, token),
    CONSTRAINT attempt_outcome CHECK (
        outcome IN ('retried', 'advanced', 'recovered', 'completed', 'failed', 'cancelled')
    )
);

CREATE TABLE windlass.job_key (
    scope text NOT NULL,
    key text NOT NULL,
    job uuid NOT NULL,
    body_hash text NOT NULL,
    expires_at timestamptz,
    CONSTRAINT job_key_pkey PRIMARY KEY (scope, key),
    CONSTRAINT job_key_scope CHECK (scope IN ('live', 'idempotent')),
    CONSTRAINT job_key_expiry CHECK ((scope = 'idempotent') = (expires_at IS NOT NULL))
);
CREATE INDEX job_key_of_job ON windlass.job_key (job);
CREATE INDEX job_key_expiring ON windlass.job_key (expires_at) WHERE expires_at IS NOT NULL;

-- Edges carry the parent's end, so that history can go while a child still waits.
CREATE TABLE windlass.job_dep (
    parent uuid NOT NULL,
    child uuid NOT NULL,
    policy text NOT NULL,
    parent_state text,
    parent_ended_at timestamptz,
    CONSTRAINT job_dep_pkey PRIMARY KEY (parent, child),
    CONSTRAINT job_dep_policy CHECK (policy IN ('cancel', 'wait', 'run')),
    CONSTRAINT job_dep_state CHECK (parent_state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT job_dep_end CHECK ((parent_state IS NULL) = (parent_ended_at IS NULL)),
    CONSTRAINT job_dep_self CHECK (parent <> child)
);
CREATE INDEX job_dep_of_child ON windlass.job_dep (child);

-- Counts that do not scan: every verb inserts what it changed, upkeep folds it into the tally.
CREATE TABLE windlass.delta (
    phase text NOT NULL,
    waiting integer NOT NULL DEFAULT 0,
    scheduled integer NOT NULL DEFAULT 0,
    queued integer NOT NULL DEFAULT 0,
    processing integer NOT NULL DEFAULT 0,
    completed integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE windlass.tally (
    phase text NOT NULL,
    waiting bigint NOT NULL,
    scheduled bigint NOT NULL,
    queued bigint NOT NULL,
    processing bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    CONSTRAINT tally_pkey PRIMARY KEY (phase)
) WITH (fillfactor = 50);

CREATE TABLE windlass.phase (
    name text NOT NULL,
    paused_at timestamptz NOT NULL,
    paused_until timestamptz,
    reason text NOT NULL,
    CONSTRAINT phase_pkey PRIMARY KEY (name)
);

-- Who waits for work. Read, never written, by enqueue; lost in a crash without harm, since notifications are hints.
CREATE UNLOGGED TABLE windlass.wake (
    phase text NOT NULL,
    waiting_until timestamptz NOT NULL,
    CONSTRAINT wake_pkey PRIMARY KEY (phase)
) WITH (fillfactor = 50);

-- One job, wherever it is. For `get`; lists go to the one table that can hold the state (1 ms against 0.8-2 s).
CREATE VIEW windlass.jobs AS
    SELECT id, kind, phase,
        CASE WHEN token IS NULL THEN 'queued' ELSE 'processing' END AS state,
        lane, generation, attempt, crashes, max_attempts, flags, args, correlation, created_at,
        COALESCE(claimed_at, ready_at) AS updated_at,
        ready_at AS run_at,
        COALESCE(started_at, claimed_at) AS started_at,
        claimed_at,
        NULL::timestamptz AS finished_at,
        cancel_at,
        token,
        NULL::text AS reason,
        0 AS pending,
        NULL::jsonb AS result, NULL::jsonb AS error, NULL::text AS traceback, NULL::jsonb AS outputs,
        NULL::jsonb AS progress
    FROM windlass.job
    UNION ALL
    SELECT id, kind, phase,
        CASE WHEN reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN reason = 'inbox' THEN 'queued' ELSE 'waiting' END,
        lane, generation, attempt, crashes, max_attempts, flags, args, correlation, created_at,
        created_at, run_at, started_at, NULL, NULL, NULL, NULL, reason, pending,
        NULL, NULL, NULL, NULL, NULL
    FROM windlass.job_later
    UNION ALL
    SELECT id, kind, phase, state, lane, generation, attempt, crashes, max_attempts, flags, args, correlation, created_at,
        finished_at, NULL, COALESCE(started_at, claimed_at), claimed_at, finished_at, NULL, token, NULL, 0,
        result, error, traceback, outputs, progress
    FROM windlass.job_done;
