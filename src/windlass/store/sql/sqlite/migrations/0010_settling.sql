-- Ended jobs with more waiting children than one transaction lets know; the PostgreSQL file of the same name gives the reasons.

CREATE TABLE windlass_settling (
    parent TEXT NOT NULL PRIMARY KEY,
    after TEXT NOT NULL,
    state TEXT NOT NULL,
    CONSTRAINT settling_state CHECK (state IN ('completed', 'failed', 'cancelled'))
) STRICT, WITHOUT ROWID;
