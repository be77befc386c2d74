-- What people see and do: the audit trail, acts on many jobs, what instances say of their processors, log lines of attempts, and whose jobs
-- are whose.

-- Acts of people and applications. Rows are only added.
CREATE TABLE windlass.audit (
    id uuid NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    subject text,
    issuer text,
    tenant text,
    act text NOT NULL,
    target text NOT NULL,
    name text NOT NULL,
    reason text,
    before jsonb,
    after jsonb,
    CONSTRAINT audit_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_of_target ON windlass.audit (target, name, id);
-- Operations write a record for each job, so that all other records are rare among those of jobs.
CREATE INDEX audit_of_actor ON windlass.audit (actor, id);
CREATE INDEX audit_of_tenant ON windlass.audit (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX audit_of_others ON windlass.audit (target, id) WHERE target <> 'job';
CREATE FUNCTION windlass.refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER audit_is_final BEFORE UPDATE OR DELETE ON windlass.audit
    FOR EACH ROW EXECUTE FUNCTION windlass.refuse_audit_change();

-- Acts on all jobs of a filter, a page at a time: `after` is the last job that was acted on, in the transaction of its page.
CREATE TABLE windlass.operation (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    finished_at timestamptz,
    after uuid NOT NULL,
    matched bigint NOT NULL,
    is_exact boolean NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    state text NOT NULL,
    act text NOT NULL,
    filter text NOT NULL,
    actor text NOT NULL,
    subject text,
    issuer text,
    tenant text,
    reason text,
    scope jsonb NOT NULL,
    options jsonb NOT NULL,
    refusals jsonb NOT NULL,
    CONSTRAINT operation_pkey PRIMARY KEY (id),
    CONSTRAINT operation_state CHECK (state IN ('running', 'done', 'stopped')),
    CONSTRAINT operation_finished CHECK ((state = 'running') = (finished_at IS NULL)),
    CONSTRAINT operation_counts CHECK (matched >= 0 AND done >= 0 AND refused >= 0)
) WITH (fillfactor = 50);
CREATE INDEX operation_running ON windlass.operation (id) WHERE state = 'running';

-- What an instance is asked to do: to drain, or to change the number of processors of a phase.
CREATE TABLE windlass.instance_request (
    id uuid NOT NULL,
    instance uuid NOT NULL,
    at timestamptz NOT NULL,
    done_at timestamptz,
    number double precision,
    state text NOT NULL,
    act text NOT NULL,
    phase text,
    actor text NOT NULL,
    reason text,
    outcome text,
    CONSTRAINT instance_request_pkey PRIMARY KEY (id),
    CONSTRAINT instance_request_state CHECK (state IN ('asked', 'accepted', 'done', 'refused')),
    CONSTRAINT instance_request_done CHECK ((state IN ('done', 'refused')) = (done_at IS NOT NULL))
);
CREATE INDEX instance_request_of_instance ON windlass.instance_request (instance, id);

-- The processors of each instance, as it said last. Lost in a crash without harm: every instance says it again.
CREATE UNLOGGED TABLE windlass.board (
    instance uuid NOT NULL,
    at timestamptz NOT NULL,
    processors jsonb NOT NULL,
    CONSTRAINT board_pkey PRIMARY KEY (instance)
) WITH (fillfactor = 50);

-- Until when people watch: one row. While they do, instances publish their boards every second.
CREATE UNLOGGED TABLE windlass.watch (
    id smallint NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT watch_pkey PRIMARY KEY (id),
    CONSTRAINT watch_one CHECK (id = 1)
) WITH (fillfactor = 50);

-- Log lines of attempts, a part for each save.
CREATE TABLE windlass.job_log (
    job uuid NOT NULL,
    token bigint NOT NULL,
    part integer NOT NULL,
    at timestamptz NOT NULL,
    attempt smallint NOT NULL,
    phase text NOT NULL,
    lines jsonb NOT NULL,
    CONSTRAINT job_log_pkey PRIMARY KEY (job, token, part)
);

-- Whose jobs are whose: for lists of a person's and of a tenant's jobs, newest first.
CREATE INDEX principal_of_subject ON windlass.principal ((claims ->> 'subject'), job);
CREATE INDEX principal_of_tenant ON windlass.principal ((claims ->> 'tenant'), job) WHERE (claims ->> 'tenant') IS NOT NULL;

-- Statistics of whole hours and days, of all instances together: made of the minutes, so that a chart of months reads few rows.
CREATE TABLE windlass.rollup_span (
    seconds integer NOT NULL,
    at timestamptz NOT NULL,
    wait_ms_sum bigint NOT NULL,
    run_ms_sum bigint NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    retried bigint NOT NULL,
    cancelled bigint NOT NULL,
    released bigint NOT NULL,
    phase text NOT NULL,
    wait jsonb NOT NULL,
    run jsonb NOT NULL,
    CONSTRAINT rollup_span_pkey PRIMARY KEY (seconds, at, phase),
    CONSTRAINT rollup_span_seconds CHECK (seconds IN (3600, 86400))
) WITH (fillfactor = 70);
-- Ended jobs by the unique key they held; jobs without a key are not in it.
CREATE INDEX job_done_key ON windlass.job_done (key, id) WHERE key IS NOT NULL;
