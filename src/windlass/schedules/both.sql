-- Schedules and their ticks. On PostgreSQL every verb locks at most rows of `schedule`, and only `fire.pick` more than one: in no order,
-- because it leaves out those that are locked.

-- name: schedule.list
-- All schedules by name; with a name, that one.
SELECT {{schedule_columns(s)}}
FROM windlass.schedule AS s
WHERE :name::text IS NULL OR s.name = :name
ORDER BY s.name;

-- name: schedule.put
-- Adds schedules, and changes those whose definition is another one or whose code is back; others are not touched. The next due time
-- stays what it was unless the times themselves are others, so that a changed argument loses no tick; a pause stays. Due times of an
-- interval count from the creation of the schedule, whatever its interval was before.
INSERT INTO windlass.schedule AS s (name, created_at, updated_at, next_at, jitter, cap, lane, max_attempts, missed, kind, phase,
    expression, tz, source, definition, correlation, due_as, args, principal, every, expires)
SELECT g.name, c.at, c.at, COALESCE(g.next_at, {{next_interval(c.at, c.at, g.every)}}), g.jitter, g.cap, g.lane, g.max_attempts, g.missed, g.kind, g.phase,
    g.expression, g.tz, g.source, g.definition, g.correlation, g.due_as, g.args, g.principal, g.every, g.expires
FROM {{given(:schedules, g,
    name text, next_at timestamptz, jitter double precision, cap integer, lane smallint, max_attempts smallint,
    missed text, kind text, phase text, expression text, tz text, source text, definition text, correlation text,
    due_as text, args jsonb, principal jsonb, every double precision, expires double precision
)}}
CROSS JOIN (SELECT {{now}} AS at) AS c
ORDER BY g.name
ON CONFLICT (name) DO UPDATE
SET updated_at = excluded.updated_at,
    next_at = CASE
        WHEN s.paused_at IS NOT NULL THEN NULL
        WHEN s.gone_at IS NULL AND s.expression = excluded.expression AND s.tz = excluded.tz THEN s.next_at
        WHEN excluded.every IS NOT NULL THEN {{next_interval(s.created_at, excluded.updated_at, excluded.every)}}
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
    principal = excluded.principal,
    every = excluded.every,
    expires = excluded.expires
WHERE s.definition <> excluded.definition
    OR s.gone_at IS NOT NULL
RETURNING name, generation;

-- name: schedule.mark_gone
-- Stops schedules whose code is gone; they stay, to be seen and to come back.
UPDATE windlass.schedule AS s
SET gone_at = {{now_once}},
    next_at = NULL
WHERE {{one_of(s.name, :names::text[])}}
    AND s.gone_at IS NULL
RETURNING name;

-- name: schedule.pause
-- Stops a schedule until it is resumed; one that is paused keeps its time and gets the new reason.
UPDATE windlass.schedule AS s
SET paused_at = COALESCE(s.paused_at, {{now}}),
    pause_reason = :reason,
    next_at = NULL
WHERE s.name = :name
RETURNING name;

-- name: schedule.resume
-- Lets a paused schedule fire again from its next due time on, if its definition is still the one that time was made from.
UPDATE windlass.schedule AS s
SET paused_at = NULL,
    pause_reason = NULL,
    next_at = CASE WHEN s.gone_at IS NULL THEN :next_at::timestamptz END
WHERE s.name = :name
    AND s.paused_at IS NOT NULL
    AND s.generation = :generation
RETURNING name;

-- name: schedule.remove
-- Removes a schedule, then its ticks: in this order, so that a tick that fires meanwhile is waited for.
DELETE FROM windlass.schedule AS s
WHERE s.name = :name
RETURNING name;
DELETE FROM windlass.tick AS t
WHERE t.schedule = :name;

-- name: fire.ticks
-- Notes ticks that fire now; returns those that had not fired before.
INSERT INTO windlass.tick (schedule, at, fired_at, job, covers)
SELECT g.schedule, g.at, g.fired_at, g.job, g.covers
FROM {{given(:ticks, g, schedule text, at timestamptz, fired_at timestamptz, job uuid, covers integer)}}
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
FROM {{given(:moves, g, name text, next_at timestamptz, last_at timestamptz, last_job uuid, skipped bigint)}}
WHERE s.name = g.name;

-- name: fire.next
-- Seconds until the next tick is due that is not left to others; NULL when no schedule fires.
SELECT {{in_seconds(min(s.next_at) - {{now}})}} AS tick_in
FROM windlass.schedule AS s
WHERE NOT {{one_of(s.name, :without::text[])}};

-- name: tick.list
-- The last ticks of a schedule, newest first.
SELECT t.schedule, t.at, t.fired_at, t.job, t.covers
FROM windlass.tick AS t
WHERE t.schedule = :name
ORDER BY t.at DESC
LIMIT :limit;

-- fragment: schedule_columns(schedule)
-- What is read of a schedule.
{schedule}.name, {schedule}.kind, {schedule}.phase, {schedule}.args, {schedule}.expression, {schedule}.tz, {schedule}.missed, {schedule}.cap, {schedule}.jitter, {schedule}.lane, {schedule}.max_attempts, {schedule}.correlation,
    {schedule}.due_as, {schedule}.source, {schedule}.definition, {schedule}.generation, {schedule}.created_at, {schedule}.updated_at, {schedule}.next_at, {schedule}.last_at, {schedule}.last_job, {schedule}.paused_at,
    {schedule}.pause_reason, {schedule}.gone_at, {schedule}.skipped, {schedule}.principal, {schedule}.every, {schedule}.expires
