-- Jobs that are cancelled if they have not begun by a certain time. The time is beside the job: one without pays nothing. The flag 2048
-- of a job's row says that there is a row here; the start of the job removes both. The index is read by upkeep, longest over first.
CREATE TABLE windlass.expiry (
    job uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT expiry_pkey PRIMARY KEY (job)
);
CREATE INDEX expiry_due ON windlass.expiry (expires_at);

-- Schedules with an interval instead of a cron expression: due times are created_at + n * every seconds. `expires` is for the jobs of a
-- schedule: seconds from a tick by which its job must have begun.
ALTER TABLE windlass.schedule
    ADD COLUMN every double precision,
    ADD COLUMN expires double precision,
    ADD CONSTRAINT schedule_every CHECK (every >= 1),
    ADD CONSTRAINT schedule_expires CHECK (expires > 0);
