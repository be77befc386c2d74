-- The tables of a job's life; the PostgreSQL file of the same name gives the reasons. What differs here:
--   * names carry a prefix, because the tables live in the application's own file (enqueue_in needs the same file);
--   * times are whole microseconds since 1970, ids are text: SQLite has no such types;
--   * job_ready is partial: without HOT updates and dead tuples, leaving the index at the claim is the cheaper way, and
--     the low-water mark is not needed;
--   * history is one table (no partitions);
--   * claim.token is AUTOINCREMENT: without it SQLite hands a deleted number out again, and a zombie passes the fence.

CREATE TABLE windlass_job (
    id TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    token INTEGER,
    claimed_at INTEGER,
    started_at INTEGER,
    cancel_at INTEGER,
    lane INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    flags INTEGER NOT NULL DEFAULT 0,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    correlation TEXT,
    args TEXT NOT NULL,
    CONSTRAINT job_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT job_held CHECK ((token IS NULL) = (claimed_at IS NULL)),
    CONSTRAINT job_cancel_needs_holder CHECK (cancel_at IS NULL OR token IS NOT NULL),
    CONSTRAINT job_counters CHECK (generation >= 1 AND attempt >= 0 AND crashes >= 0 AND max_attempts >= 1)
) STRICT;
CREATE INDEX windlass_job_ready ON windlass_job (phase, lane, ready_at, id) WHERE token IS NULL;
-- For every heartbeat; holds only jobs that were asked to stop, so a claim never touches it.
CREATE INDEX windlass_job_stopping ON windlass_job (token) WHERE cancel_at IS NOT NULL;

CREATE TABLE windlass_job_later (
    id TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    started_at INTEGER,
    pending INTEGER NOT NULL DEFAULT 0,
    lane INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    flags INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    correlation TEXT,
    args TEXT NOT NULL,
    CONSTRAINT job_later_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT job_later_pending CHECK (
        (reason IN ('scheduled', 'retry', 'inbox') AND pending = 0)
        OR (reason IN ('waiting', 'unlinked') AND pending > 0)
    ),
    CONSTRAINT job_later_counters CHECK (generation >= 1 AND attempt >= 0 AND crashes >= 0 AND max_attempts >= 1)
) STRICT;
CREATE INDEX windlass_job_later_due ON windlass_job_later (run_at, id) WHERE reason IN ('scheduled', 'retry', 'inbox');
CREATE INDEX windlass_job_later_unlinked ON windlass_job_later (id) WHERE reason = 'unlinked';

CREATE TABLE windlass_job_done (
    id TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    claimed_at INTEGER,
    started_at INTEGER,
    token INTEGER,
    lane INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    state TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    correlation TEXT,
    key TEXT,
    args TEXT NOT NULL,
    result TEXT,
    error TEXT,
    traceback TEXT,
    outputs TEXT,
    progress TEXT,
    CONSTRAINT job_done_state CHECK (state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT job_done_completed CHECK (state <> 'completed' OR (token IS NOT NULL AND claimed_at IS NOT NULL)),
    CONSTRAINT job_done_failed CHECK (state <> 'failed' OR error IS NOT NULL),
    CONSTRAINT job_done_result CHECK (result IS NULL OR state = 'completed')
) STRICT;
CREATE INDEX windlass_job_done_ended_badly ON windlass_job_done (state, id) WHERE state <> 'completed';
CREATE INDEX windlass_job_done_kind ON windlass_job_done (kind, id) WHERE state <> 'completed';


CREATE TRIGGER windlass_job_done_is_final BEFORE UPDATE ON windlass_job_done
BEGIN
    SELECT RAISE(ABORT, 'an ended job leaves its state only by retry');
END;

CREATE TABLE windlass_claim (
    token INTEGER PRIMARY KEY AUTOINCREMENT,
    instance TEXT NOT NULL,
    at INTEGER NOT NULL,
    phase TEXT NOT NULL
) STRICT;
CREATE INDEX windlass_claim_of_instance ON windlass_claim (instance);

CREATE TABLE windlass_instance (
    id TEXT NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    dead_at INTEGER,
    lease INTEGER NOT NULL,
    info TEXT NOT NULL DEFAULT '{}',
    CONSTRAINT instance_lease CHECK (lease > 0)
) STRICT;

CREATE TABLE windlass_output (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    phase TEXT NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    next_max_attempts INTEGER,
    next_phase TEXT,
    value TEXT NOT NULL,
    PRIMARY KEY (job, generation, phase, name),
    CONSTRAINT output_next CHECK ((next_phase IS NULL) = (next_max_attempts IS NULL)),
    CONSTRAINT output_next_is_main CHECK (next_phase IS NULL OR name = '')
) STRICT;

CREATE TABLE windlass_checkpoint (
    job TEXT NOT NULL PRIMARY KEY,
    generation INTEGER NOT NULL,
    token INTEGER NOT NULL,
    done INTEGER NOT NULL,
    total INTEGER,
    at INTEGER NOT NULL,
    position TEXT,
    CONSTRAINT checkpoint_done CHECK (done >= 0 AND (total IS NULL OR total >= done))
) STRICT;

CREATE TABLE windlass_attempt (
    job TEXT NOT NULL,
    token INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    phase TEXT NOT NULL,
    error TEXT,
    traceback TEXT,
    PRIMARY KEY (job, token),
    CONSTRAINT attempt_outcome CHECK (
        outcome IN ('retried', 'advanced', 'recovered', 'completed', 'failed', 'cancelled')
    )
) STRICT;

CREATE TABLE windlass_job_key (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (scope, key),
    CONSTRAINT job_key_scope CHECK (scope IN ('live', 'idempotent')),
    CONSTRAINT job_key_expiry CHECK ((scope = 'idempotent') = (expires_at IS NOT NULL))
) STRICT;
CREATE INDEX windlass_job_key_of_job ON windlass_job_key (job);
CREATE INDEX windlass_job_key_expiring ON windlass_job_key (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE windlass_job_dep (
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    policy TEXT NOT NULL,
    parent_state TEXT,
    parent_ended_at INTEGER,
    PRIMARY KEY (parent, child),
    CONSTRAINT job_dep_policy CHECK (policy IN ('cancel', 'wait', 'run')),
    CONSTRAINT job_dep_state CHECK (parent_state IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT job_dep_end CHECK ((parent_state IS NULL) = (parent_ended_at IS NULL)),
    CONSTRAINT job_dep_self CHECK (parent <> child)
) STRICT;
CREATE INDEX windlass_job_dep_of_child ON windlass_job_dep (child);

CREATE TABLE windlass_delta (
    phase TEXT NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    processing INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE windlass_tally (
    phase TEXT NOT NULL PRIMARY KEY,
    waiting INTEGER NOT NULL,
    scheduled INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    processing INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
) STRICT;

CREATE TABLE windlass_phase (
    name TEXT NOT NULL PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    paused_until INTEGER,
    reason TEXT NOT NULL
) STRICT;

CREATE VIEW windlass_jobs AS
    SELECT id, kind, phase,
        CASE WHEN token IS NULL THEN 'queued' ELSE 'processing' END AS state,
        lane, generation, attempt, crashes, max_attempts, flags, args, correlation, created_at,
        COALESCE(claimed_at, ready_at) AS updated_at,
        ready_at AS run_at,
        COALESCE(started_at, claimed_at) AS started_at,
        claimed_at,
        NULL AS finished_at,
        cancel_at,
        token,
        NULL AS reason,
        0 AS pending,
        NULL AS result, NULL AS error, NULL AS traceback, NULL AS outputs, NULL AS progress
    FROM windlass_job
    UNION ALL
    SELECT id, kind, phase,
        CASE WHEN reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN reason = 'inbox' THEN 'queued' ELSE 'waiting' END,
        lane, generation, attempt, crashes, max_attempts, flags, args, correlation, created_at,
        created_at, run_at, started_at, NULL, NULL, NULL, NULL, reason, pending,
        NULL, NULL, NULL, NULL, NULL
    FROM windlass_job_later
    UNION ALL
    SELECT id, kind, phase, state, lane, generation, attempt, crashes, max_attempts, flags, args, correlation, created_at,
        finished_at, NULL, COALESCE(started_at, claimed_at), claimed_at, finished_at, NULL, token, NULL, 0,
        result, error, traceback, outputs, progress
    FROM windlass_job_done;
