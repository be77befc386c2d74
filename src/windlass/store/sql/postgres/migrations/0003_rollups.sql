-- What each minute of a phase came to on one instance, so that graphs outlive the process that counted. Rows are absolute
-- and are written again until their minute is over; the fill factor leaves room for that. What the numbers of `wait` and
-- `run` mean (how many jobs waited or ran how long) is the writer's business: they are lists of counts.
CREATE TABLE windlass.rollup (
    minute timestamptz NOT NULL,
    instance uuid NOT NULL,
    wait_ms_sum bigint NOT NULL,
    run_ms_sum bigint NOT NULL,
    completed integer NOT NULL,
    failed integer NOT NULL,
    retried integer NOT NULL,
    cancelled integer NOT NULL,
    released integer NOT NULL,
    phase text NOT NULL,
    wait jsonb NOT NULL,
    run jsonb NOT NULL,
    CONSTRAINT rollup_pkey PRIMARY KEY (minute, phase, instance),
    CONSTRAINT rollup_minute CHECK (EXTRACT(EPOCH FROM minute) % 60 = 0),
    CONSTRAINT rollup_counts CHECK (completed >= 0 AND failed >= 0 AND retried >= 0 AND cancelled >= 0 AND released >= 0),
    CONSTRAINT rollup_sums CHECK (wait_ms_sum >= 0 AND run_ms_sum >= 0)
) WITH (fillfactor = 70);
