-- job_ready leaves out look-ups by id. A partial index is used only where its condition follows from the query's: `phase = …` gives it, an id
-- alone does not. While the table is empty a whole walk through job_ready seems as cheap as job_pkey, and a session keeps the plan it made then.
CREATE INDEX job_ready_by_phase ON windlass.job (phase, lane, ready_at, id) WHERE phase IS NOT NULL;
DROP INDEX windlass.job_ready;
ALTER INDEX windlass.job_ready_by_phase RENAME TO job_ready;
