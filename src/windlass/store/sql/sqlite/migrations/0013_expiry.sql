-- Jobs that are cancelled if they have not begun by a certain time, and intervals of schedules; the PostgreSQL file of the same name gives
-- the reasons.
CREATE TABLE windlass_expiry (
    job TEXT NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_expiry_due ON windlass_expiry (expires_at);

ALTER TABLE windlass_schedule ADD COLUMN every REAL CONSTRAINT schedule_every CHECK (every >= 1);
ALTER TABLE windlass_schedule ADD COLUMN expires REAL CONSTRAINT schedule_expires CHECK (expires > 0);
