-- Cron: schedules, and the ticks of them that fired. A due time fires once however many instances look, because the tick's row,
-- its job and the schedule's next_at are one commit, and (schedule, at) is the tick's key. `next_at` is NULL while a schedule
-- does not fire: an operator paused it, or the code that defined it is gone. It is written at every tick, so the fill factor
-- leaves room.
CREATE TABLE windlass.schedule (
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    next_at timestamptz,
    last_at timestamptz,
    paused_at timestamptz,
    gone_at timestamptz,
    last_job uuid,
    jitter double precision NOT NULL,
    skipped bigint NOT NULL DEFAULT 0,
    generation integer NOT NULL DEFAULT 1,
    cap integer NOT NULL,
    lane smallint NOT NULL,
    max_attempts smallint NOT NULL,
    missed text NOT NULL,
    kind text NOT NULL,
    phase text NOT NULL,
    expression text NOT NULL,
    tz text NOT NULL,
    source text NOT NULL,
    definition text NOT NULL,
    correlation text,
    due_as text,
    pause_reason text,
    args jsonb NOT NULL,
    CONSTRAINT schedule_pkey PRIMARY KEY (name),
    CONSTRAINT schedule_lane CHECK (lane BETWEEN 0 AND 9),
    CONSTRAINT schedule_numbers CHECK (generation >= 1 AND max_attempts >= 1 AND cap >= 1 AND jitter >= 0 AND skipped >= 0),
    CONSTRAINT schedule_missed CHECK (missed IN ('skip', 'once', 'all')),
    CONSTRAINT schedule_pause CHECK ((paused_at IS NULL) = (pause_reason IS NULL)),
    CONSTRAINT schedule_last CHECK ((last_at IS NULL) = (last_job IS NULL)),
    CONSTRAINT schedule_next CHECK ((next_at IS NULL) = (paused_at IS NOT NULL OR gone_at IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX schedule_due ON windlass.schedule (next_at);

-- `covers` is how many due times this one stands for: more than one where several were missed and one job makes up for them.
CREATE TABLE windlass.tick (
    schedule text NOT NULL,
    at timestamptz NOT NULL,
    fired_at timestamptz NOT NULL,
    job uuid NOT NULL,
    covers integer NOT NULL,
    CONSTRAINT tick_pkey PRIMARY KEY (schedule, at),
    CONSTRAINT tick_covers CHECK (covers >= 1)
);
