-- What people see and do; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_audit (
    id TEXT NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    subject TEXT,
    issuer TEXT,
    tenant TEXT,
    act TEXT NOT NULL,
    target TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT,
    before TEXT,
    after TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_audit_of_target ON windlass_audit (target, name, id);
CREATE INDEX windlass_audit_of_actor ON windlass_audit (actor, id);
CREATE INDEX windlass_audit_of_tenant ON windlass_audit (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX windlass_audit_of_others ON windlass_audit (target, id) WHERE target <> 'job';
CREATE TRIGGER windlass_audit_is_final BEFORE UPDATE ON windlass_audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER windlass_audit_is_kept BEFORE DELETE ON windlass_audit
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;

CREATE TABLE windlass_operation (
    id TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    after TEXT NOT NULL,
    matched INTEGER NOT NULL,
    is_exact INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL,
    act TEXT NOT NULL,
    filter TEXT NOT NULL,
    actor TEXT NOT NULL,
    subject TEXT,
    issuer TEXT,
    tenant TEXT,
    reason TEXT,
    scope TEXT NOT NULL,
    options TEXT NOT NULL,
    refusals TEXT NOT NULL,
    CONSTRAINT operation_state CHECK (state IN ('running', 'done', 'stopped')),
    CONSTRAINT operation_finished CHECK ((state = 'running') = (finished_at IS NULL)),
    CONSTRAINT operation_counts CHECK (matched >= 0 AND done >= 0 AND refused >= 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_operation_running ON windlass_operation (id) WHERE state = 'running';

CREATE TABLE windlass_instance_request (
    id TEXT NOT NULL PRIMARY KEY,
    instance TEXT NOT NULL,
    at INTEGER NOT NULL,
    done_at INTEGER,
    number REAL,
    state TEXT NOT NULL,
    act TEXT NOT NULL,
    phase TEXT,
    actor TEXT NOT NULL,
    reason TEXT,
    outcome TEXT,
    CONSTRAINT instance_request_state CHECK (state IN ('asked', 'accepted', 'done', 'refused')),
    CONSTRAINT instance_request_done CHECK ((state IN ('done', 'refused')) = (done_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_instance_request_of_instance ON windlass_instance_request (instance, id);

CREATE TABLE windlass_board (
    instance TEXT NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    processors TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_watch (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_job_log (
    job TEXT NOT NULL,
    token INTEGER NOT NULL,
    part INTEGER NOT NULL,
    at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    phase TEXT NOT NULL,
    lines TEXT NOT NULL,
    PRIMARY KEY (job, token, part)
) STRICT, WITHOUT ROWID;

CREATE INDEX windlass_principal_of_subject ON windlass_principal (claims ->> 'subject', job);
CREATE INDEX windlass_principal_of_tenant ON windlass_principal (claims ->> 'tenant', job) WHERE (claims ->> 'tenant') IS NOT NULL;

CREATE TABLE windlass_rollup_span (
    seconds INTEGER NOT NULL,
    at INTEGER NOT NULL,
    wait_ms_sum INTEGER NOT NULL,
    run_ms_sum INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    released INTEGER NOT NULL,
    phase TEXT NOT NULL,
    wait TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (seconds, at, phase),
    CONSTRAINT rollup_span_seconds CHECK (seconds IN (3600, 86400))
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_job_done_key ON windlass_job_done (key, id) WHERE key IS NOT NULL;
