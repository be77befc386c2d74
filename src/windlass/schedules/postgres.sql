-- Schedules and their ticks. Every verb locks at most rows of `schedule`, and only `fire.pick` more than one: in no order, because
-- it leaves out those that are locked.

-- name: schedule.list
-- All schedules by name; with a name, that one.
SELECT s.name, s.kind, s.phase, s.args, s.expression, s.tz, s.missed, s.cap, s.jitter, s.lane, s.max_attempts, s.correlation,
    s.due_as, s.source, s.definition, s.generation, s.created_at, s.updated_at, s.next_at, s.last_at, s.last_job, s.paused_at,
    s.pause_reason, s.gone_at, s.skipped, s.principal
FROM windlass.schedule AS s
WHERE :name::text IS NULL OR s.name = :name
ORDER BY s.name;

-- name: schedule.put
-- Adds schedules, and changes those whose definition is another one or whose code is back; others are not touched. The next due time
-- stays what it was unless the times themselves are others, so that a changed argument loses no tick; a pause stays.
INSERT INTO windlass.schedule AS s (name, created_at, updated_at, next_at, jitter, cap, lane, max_attempts, missed, kind, phase,
    expression, tz, source, definition, correlation, due_as, args, principal)
SELECT g.name, c.at, c.at, g.next_at, g.jitter, g.cap, g.lane, g.max_attempts, g.missed, g.kind, g.phase,
    g.expression, g.tz, g.source, g.definition, g.correlation, g.due_as, g.args, g.principal
FROM json_to_recordset(:schedules::json) AS g (
    name text, next_at timestamptz, jitter double precision, cap integer, lane smallint, max_attempts smallint, missed text,
    kind text, phase text, expression text, tz text, source text, definition text, correlation text, due_as text, args jsonb,
    principal jsonb
)
CROSS JOIN (SELECT {{now}} AS at) AS c
ORDER BY g.name
ON CONFLICT (name) DO UPDATE
SET updated_at = excluded.updated_at,
    next_at = CASE
        WHEN s.paused_at IS NOT NULL THEN NULL
        WHEN s.gone_at IS NULL AND s.expression = excluded.expression AND s.tz = excluded.tz THEN s.next_at
        ELSE excluded.next_at
    END,
    gone_at = NULL,
    generation = s.generation + 1,
    jitter = excluded.jitter,
    cap = excluded.cap,
    lane = excluded.lane,
    max_attempts = excluded.max_attempts,
    missed = excluded.missed,
    kind = excluded.kind,
    phase = excluded.phase,
    expression = excluded.expression,
    tz = excluded.tz,
    source = excluded.source,
    definition = excluded.definition,
    correlation = excluded.correlation,
    due_as = excluded.due_as,
    args = excluded.args,
    principal = excluded.principal
WHERE s.definition <> excluded.definition
    OR s.gone_at IS NOT NULL
RETURNING s.name, s.generation;

-- name: schedule.mark_gone
-- Stops schedules whose code is gone; they stay, to be seen and to come back.
UPDATE windlass.schedule AS s
SET gone_at = (SELECT {{now}}),
    next_at = NULL
WHERE s.name = ANY(:names::text[])
    AND s.gone_at IS NULL
RETURNING s.name;

-- name: schedule.pause
-- Stops a schedule until it is resumed; one that is paused keeps its time and gets the new reason.
UPDATE windlass.schedule AS s
SET paused_at = COALESCE(s.paused_at, :now::timestamptz, clock_timestamp()),
    pause_reason = :reason,
    next_at = NULL
WHERE s.name = :name
RETURNING s.name;

-- name: schedule.resume
-- Lets a paused schedule fire again from its next due time on, if its definition is still the one that time was made from.
UPDATE windlass.schedule AS s
SET paused_at = NULL,
    pause_reason = NULL,
    next_at = CASE WHEN s.gone_at IS NULL THEN :next_at::timestamptz END
WHERE s.name = :name
    AND s.paused_at IS NOT NULL
    AND s.generation = :generation
RETURNING s.name;

-- name: schedule.remove
-- Removes a schedule, then its ticks: in this order, so that a tick that fires meanwhile is waited for.
DELETE FROM windlass.schedule AS s
WHERE s.name = :name
RETURNING s.name;
DELETE FROM windlass.tick AS t
WHERE t.schedule = :name;

-- name: fire.pick
-- Locks due schedules, longest due first, leaving out those that another instance fires or that are left to others; returns them with the current time. A
-- process that stops in the middle of this transaction frees them after five seconds.
SELECT set_config('idle_in_transaction_session_timeout', '5000', true);
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
)
SELECT s.name, s.kind, s.phase, s.args, s.expression, s.tz, s.missed, s.cap, s.jitter, s.lane, s.max_attempts, s.correlation,
    s.due_as, s.source, s.definition, s.generation, s.created_at, s.updated_at, s.next_at, s.last_at, s.last_job, s.paused_at,
    s.pause_reason, s.gone_at, s.skipped, s.principal, c.at AS fired_at
FROM windlass.schedule AS s
CROSS JOIN clock AS c
WHERE s.next_at <= (SELECT at FROM clock)
    AND s.name <> ALL(:without::text[])
ORDER BY s.next_at, s.name
LIMIT :limit
FOR UPDATE OF s SKIP LOCKED;

-- name: fire.ticks
-- Notes ticks that fire now; returns those that had not fired before.
INSERT INTO windlass.tick (schedule, at, fired_at, job, covers)
SELECT g.schedule, g.at, g.fired_at, g.job, g.covers
FROM json_to_recordset(:ticks::json) AS g (schedule text, at timestamptz, fired_at timestamptz, job uuid, covers integer)
ORDER BY g.schedule, g.at
ON CONFLICT (schedule, at) DO NOTHING
RETURNING schedule, at;

-- name: fire.move
-- Moves schedules that fire.pick locked on to their next due time.
UPDATE windlass.schedule AS s
SET next_at = g.next_at,
    last_at = COALESCE(g.last_at, s.last_at),
    last_job = COALESCE(g.last_job, s.last_job),
    skipped = s.skipped + g.skipped
FROM json_to_recordset(:moves::json) AS g (
    name text, next_at timestamptz, last_at timestamptz, last_job uuid, skipped bigint
)
WHERE s.name = g.name;

-- name: fire.next
-- Seconds until the next tick is due that is not left to others; NULL when no schedule fires.
SELECT EXTRACT(epoch FROM min(s.next_at) - {{now}})::double precision AS tick_in
FROM windlass.schedule AS s
WHERE s.name <> ALL(:without::text[]);

-- name: tick.list
-- The last ticks of a schedule, newest first.
SELECT t.schedule, t.at, t.fired_at, t.job, t.covers
FROM windlass.tick AS t
WHERE t.schedule = :name
ORDER BY t.at DESC
LIMIT :limit;

-- name: tick.prune
-- Removes all but the newest ticks of every schedule; returns how many were removed.
WITH gone AS (
    DELETE FROM windlass.tick AS t
    USING (
        SELECT s.name, (
            SELECT k.at
            FROM windlass.tick AS k
            WHERE k.schedule = s.name
            ORDER BY k.at DESC
            OFFSET :keep
            LIMIT 1
        ) AS upto
        FROM windlass.schedule AS s
    ) AS old
    WHERE t.schedule = old.name
        AND t.at <= old.upto
    RETURNING t.at
)
SELECT count(*) AS removed
FROM gone;

-- column: agenda.tick_in
-- Seconds until the next tick is due; NULL if no schedule fires.
EXTRACT(epoch FROM (SELECT min(s.next_at) FROM windlass.schedule AS s) - clock.at)::double precision
