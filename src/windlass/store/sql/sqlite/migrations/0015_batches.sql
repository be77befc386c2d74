-- A running job reads its parents page by page, in the order of their ids.
DROP INDEX windlass_job_dep_of_child;
CREATE INDEX windlass_job_dep_of_child ON windlass_job_dep (child, parent);

-- Rules that fire when jobs fail, beside those that fire when jobs complete.
ALTER TABLE windlass_rule ADD COLUMN event TEXT NOT NULL DEFAULT 'success' CHECK (event IN ('success', 'failure'));
