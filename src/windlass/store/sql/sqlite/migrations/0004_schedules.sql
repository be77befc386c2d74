-- Cron: schedules, and the ticks of them that fired; the PostgreSQL file of the same name gives the reasons.
CREATE TABLE windlass_schedule (
    name TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    next_at INTEGER,
    last_at INTEGER,
    paused_at INTEGER,
    gone_at INTEGER,
    last_job TEXT,
    jitter REAL NOT NULL,
    skipped INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 1,
    cap INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    missed TEXT NOT NULL,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    expression TEXT NOT NULL,
    tz TEXT NOT NULL,
    source TEXT NOT NULL,
    definition TEXT NOT NULL,
    correlation TEXT,
    due_as TEXT,
    pause_reason TEXT,
    args TEXT NOT NULL,
    CONSTRAINT schedule_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT schedule_numbers CHECK (generation >= 1 AND max_attempts >= 1 AND cap >= 1 AND jitter >= 0 AND skipped >= 0),
    CONSTRAINT schedule_missed CHECK (missed IN ('skip', 'once', 'all')),
    CONSTRAINT schedule_pause CHECK ((paused_at IS NULL) = (pause_reason IS NULL)),
    CONSTRAINT schedule_last CHECK ((last_at IS NULL) = (last_job IS NULL)),
    CONSTRAINT schedule_next CHECK ((next_at IS NULL) = (paused_at IS NOT NULL OR gone_at IS NOT NULL))
) STRICT;
CREATE INDEX windlass_schedule_due ON windlass_schedule (next_at);

CREATE TABLE windlass_tick (
    schedule TEXT NOT NULL,
    at INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    job TEXT NOT NULL,
    covers INTEGER NOT NULL,
    PRIMARY KEY (schedule, at),
    CONSTRAINT tick_covers CHECK (covers >= 1)
) STRICT, WITHOUT ROWID;
