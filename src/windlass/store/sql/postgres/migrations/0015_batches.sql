-- A running job reads its parents page by page, in the order of their ids.
DROP INDEX windlass.job_dep_of_child;
CREATE INDEX job_dep_of_child ON windlass.job_dep (child, parent);

-- Rules that fire when jobs fail, beside those that fire when jobs complete.
ALTER TABLE windlass.rule
    ADD COLUMN event text NOT NULL DEFAULT 'success',
    ADD CONSTRAINT rule_event CHECK (event IN ('success', 'failure'));
