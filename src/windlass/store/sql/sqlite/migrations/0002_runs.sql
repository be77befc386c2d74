-- Where an attempt ran and for how long; the PostgreSQL file of the same name gives the reasons.

ALTER TABLE windlass_job_done ADD COLUMN instance TEXT;
ALTER TABLE windlass_job_done ADD COLUMN processor INTEGER;
ALTER TABLE windlass_job_done ADD COLUMN waited_ms INTEGER;
ALTER TABLE windlass_job_done ADD COLUMN ran_ms INTEGER;
ALTER TABLE windlass_attempt ADD COLUMN instance TEXT;
ALTER TABLE windlass_attempt ADD COLUMN processor INTEGER;
ALTER TABLE windlass_attempt ADD COLUMN waited_ms INTEGER;
ALTER TABLE windlass_attempt ADD COLUMN ran_ms INTEGER;
