-- Flow control; the PostgreSQL file of the same name gives the reasons. SQLite cannot change a CHECK: the two tables
-- that have one to change are made anew.

ALTER TABLE windlass_job ADD COLUMN risen INTEGER;
ALTER TABLE windlass_job_done ADD COLUMN limits TEXT;

DROP VIEW windlass_jobs;
CREATE TABLE windlass_job_later_new (
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
    risen INTEGER,
    gate TEXT,
    CONSTRAINT job_later_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT job_later_pending CHECK (
        (reason IN ('scheduled', 'retry', 'inbox', 'limited', 'paced') AND pending = 0)
        OR (reason IN ('waiting', 'unlinked') AND pending > 0)
    ),
    CONSTRAINT job_later_gate CHECK (gate IS NULL OR reason = 'limited'),
    CONSTRAINT job_later_counters CHECK (generation >= 1 AND attempt >= 0 AND crashes >= 0 AND max_attempts >= 1)
) STRICT;
INSERT INTO windlass_job_later_new (id, created_at, run_at, started_at, pending, lane, generation, attempt, crashes, max_attempts, flags,
    reason, kind, phase, correlation, args)
SELECT id, created_at, run_at, started_at, pending, lane, generation, attempt, crashes, max_attempts, flags, reason, kind, phase,
    correlation, args
FROM windlass_job_later;
DROP TABLE windlass_job_later;
ALTER TABLE windlass_job_later_new RENAME TO windlass_job_later;
CREATE INDEX windlass_job_later_due ON windlass_job_later (run_at, id) WHERE reason IN ('scheduled', 'retry', 'inbox');
CREATE INDEX windlass_job_later_unlinked ON windlass_job_later (id) WHERE reason = 'unlinked';
CREATE INDEX windlass_job_later_unsorted ON windlass_job_later (id) WHERE reason = 'limited' AND gate IS NULL;
CREATE INDEX windlass_job_later_limited ON windlass_job_later (phase, gate, lane, run_at, id) WHERE reason = 'limited' AND gate IS NOT NULL;
CREATE INDEX windlass_job_later_paced ON windlass_job_later (phase, lane, run_at, id) WHERE reason = 'paced';
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

CREATE TABLE windlass_flow (
    phase TEXT NOT NULL PRIMARY KEY,
    told_at INTEGER NOT NULL,
    filled_at INTEGER NOT NULL,
    tokens REAL NOT NULL,
    rate REAL,
    age REAL,
    lim INTEGER,
    burst INTEGER,
    key TEXT,
    CONSTRAINT flow_lim CHECK (lim >= 1),
    CONSTRAINT flow_rate CHECK (rate > 0 AND burst >= 1),
    CONSTRAINT flow_burst CHECK ((rate IS NULL) = (burst IS NULL)),
    CONSTRAINT flow_age CHECK (age > 0)
) STRICT;

CREATE TABLE windlass_gate (
    phase TEXT NOT NULL,
    key TEXT NOT NULL,
    used_at INTEGER NOT NULL,
    admitted INTEGER NOT NULL,
    PRIMARY KEY (phase, key),
    CONSTRAINT gate_admitted CHECK (admitted >= 0)
) STRICT;

CREATE TABLE windlass_job_limit (
    job TEXT NOT NULL,
    rate REAL,
    lim INTEGER,
    burst INTEGER,
    admitted INTEGER NOT NULL DEFAULT 0,
    gone INTEGER NOT NULL DEFAULT 0,
    phase TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (job, phase),
    CONSTRAINT job_limit_some CHECK (lim IS NOT NULL OR rate IS NOT NULL),
    CONSTRAINT job_limit_lim CHECK (lim >= 1),
    CONSTRAINT job_limit_rate CHECK (rate > 0 AND burst >= 1),
    CONSTRAINT job_limit_burst CHECK ((rate IS NULL) = (burst IS NULL)),
    CONSTRAINT job_limit_place CHECK (lim IS NOT NULL OR NOT admitted),
    CONSTRAINT job_limit_gone CHECK (admitted OR NOT gone)
) STRICT;
CREATE INDEX windlass_job_limit_admitted ON windlass_job_limit (phase, key) WHERE admitted;
CREATE INDEX windlass_job_limit_gone ON windlass_job_limit (job) WHERE gone;

CREATE TABLE windlass_job_key_new (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (scope, key),
    CONSTRAINT job_key_scope CHECK (scope IN ('live', 'idempotent', 'throttle', 'debounce')),
    CONSTRAINT job_key_expiry CHECK ((scope IN ('idempotent', 'throttle', 'debounce')) = (expires_at IS NOT NULL))
) STRICT;
INSERT INTO windlass_job_key_new (scope, key, job, body_hash, expires_at)
SELECT scope, key, job, body_hash, expires_at
FROM windlass_job_key;
DROP TABLE windlass_job_key;
ALTER TABLE windlass_job_key_new RENAME TO windlass_job_key;
CREATE INDEX windlass_job_key_of_job ON windlass_job_key (job);
CREATE INDEX windlass_job_key_expiring ON windlass_job_key (expires_at) WHERE expires_at IS NOT NULL;
