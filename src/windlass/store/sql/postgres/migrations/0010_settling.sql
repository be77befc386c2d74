-- Ended jobs with more waiting children than one transaction lets know (dependencies.py): the others are upkeep's. `after` is the child up to
-- which it is done. The row goes with the last page.
CREATE TABLE windlass.settling (
    parent uuid NOT NULL,
    after uuid NOT NULL,
    state text NOT NULL,
    CONSTRAINT settling_pkey PRIMARY KEY (parent),
    CONSTRAINT settling_state CHECK (state IN ('completed', 'failed', 'cancelled'))
);
