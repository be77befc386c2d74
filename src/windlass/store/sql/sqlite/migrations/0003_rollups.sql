-- What each minute of a phase came to on one instance; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_rollup (
    minute INTEGER NOT NULL,
    instance TEXT NOT NULL,
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
    PRIMARY KEY (minute, phase, instance),
    CONSTRAINT rollup_minute CHECK (minute % 60000000 = 0),
    CONSTRAINT rollup_counts CHECK (completed >= 0 AND failed >= 0 AND retried >= 0 AND cancelled >= 0 AND released >= 0),
    CONSTRAINT rollup_sums CHECK (wait_ms_sum >= 0 AND run_ms_sum >= 0)
) STRICT;
