-- Schedules and their ticks.

-- name: schedule.list
-- All schedules by name; with a name, that one.
SELECT s.name, s.kind, s.phase, s.args, s.expression, s.tz, s.missed, s.cap, s.jitter, s.lane, s.max_attempts, s.correlation,
    s.due_as, s.source, s.definition, s.generation, s.created_at, s.updated_at, s.next_at, s.last_at, s.last_job, s.paused_at,
    s.pause_reason, s.gone_at, s.skipped, s.principal
FROM windlass_schedule AS s
WHERE :name IS NULL OR s.name = :name
ORDER BY s.name;

-- name: schedule.put
-- Adds schedules, and changes those whose definition is another one or whose code is back; others are not touched. The next due time
-- stays what it was unless the times themselves are others, so that a changed argument loses no tick; a pause stays.
INSERT INTO windlass_schedule AS s (name, created_at, updated_at, next_at, jitter, cap, lane, max_attempts, missed, kind, phase,
    expression, tz, source, definition, correlation, due_as, args, principal)
SELECT g.value ->> '$.name', :now, :now, g.value ->> '$.next_at', g.value ->> '$.jitter', g.value ->> '$.cap', g.value ->> '$.lane',
    g.value ->> '$.max_attempts', g.value ->> '$.missed', g.value ->> '$.kind', g.value ->> '$.phase', g.value ->> '$.expression',
    g.value ->> '$.tz', g.value ->> '$.source', g.value ->> '$.definition', g.value ->> '$.correlation', g.value ->> '$.due_as',
    g.value -> '$.args', NULLIF(g.value -> '$.principal', 'null')
FROM json_each(:schedules) AS g
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
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
RETURNING name, generation;

-- name: schedule.mark_gone
-- Stops schedules whose code is gone; they stay, to be seen and to come back.
UPDATE windlass_schedule
SET gone_at = :now,
    next_at = NULL
WHERE name IN (SELECT g.value FROM json_each(:names) AS g)
    AND gone_at IS NULL
RETURNING name;

-- name: schedule.pause
-- Stops a schedule until it is resumed; one that is paused keeps its time and gets the new reason.
UPDATE windlass_schedule
SET paused_at = COALESCE(paused_at, :now),
    pause_reason = :reason,
    next_at = NULL
WHERE name = :name
RETURNING name;

-- name: schedule.resume
-- Lets a paused schedule fire again from its next due time on, if its definition is still the one that time was made from.
UPDATE windlass_schedule
SET paused_at = NULL,
    pause_reason = NULL,
    next_at = CASE WHEN gone_at IS NULL THEN :next_at END
WHERE name = :name
    AND paused_at IS NOT NULL
    AND generation = :generation
RETURNING name;

-- name: schedule.remove
-- Removes a schedule and its ticks.
DELETE FROM windlass_tick
WHERE schedule = :name;
DELETE FROM windlass_schedule
WHERE name = :name
RETURNING name;

-- name: fire.due
-- Whether any schedule is due: a read, so that an idle instance never writes.
SELECT 1
FROM windlass_schedule AS s
WHERE s.next_at <= :now
LIMIT 1;

-- name: fire.pick
-- Returns due schedules, longest due first, with the current time, except those that are left to others.
SELECT s.name, s.kind, s.phase, s.args, s.expression, s.tz, s.missed, s.cap, s.jitter, s.lane, s.max_attempts, s.correlation,
    s.due_as, s.source, s.definition, s.generation, s.created_at, s.updated_at, s.next_at, s.last_at, s.last_job, s.paused_at,
    s.pause_reason, s.gone_at, s.skipped, s.principal, :now AS fired_at
FROM windlass_schedule AS s
WHERE s.next_at <= :now
    AND s.name NOT IN (SELECT g.value FROM json_each(:without) AS g)
ORDER BY s.next_at, s.name
LIMIT :limit;

-- name: fire.ticks
-- Notes ticks that fire now; returns those that had not fired before.
INSERT INTO windlass_tick (schedule, at, fired_at, job, covers)
SELECT g.value ->> '$.schedule', g.value ->> '$.at', g.value ->> '$.fired_at', g.value ->> '$.job', g.value ->> '$.covers'
FROM json_each(:ticks) AS g
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (schedule, at) DO NOTHING
RETURNING schedule, at;

-- name: fire.move
-- Moves schedules that fire.pick returned on to their next due time.
UPDATE windlass_schedule AS s
SET next_at = g.value ->> '$.next_at',
    last_at = COALESCE(g.value ->> '$.last_at', s.last_at),
    last_job = COALESCE(g.value ->> '$.last_job', s.last_job),
    skipped = s.skipped + (g.value ->> '$.skipped')
FROM json_each(:moves) AS g
WHERE s.name = g.value ->> '$.name';

-- name: fire.next
-- Seconds until the next tick is due that is not left to others; NULL when no schedule fires.
SELECT (min(s.next_at) - :now) / 1000000.0 AS tick_in
FROM windlass_schedule AS s
WHERE s.name NOT IN (SELECT g.value FROM json_each(:without) AS g);

-- name: tick.list
-- The last ticks of a schedule, newest first.
SELECT t.schedule, t.at, t.fired_at, t.job, t.covers
FROM windlass_tick AS t
WHERE t.schedule = :name
ORDER BY t.at DESC
LIMIT :limit;

-- name: tick.prune
-- Removes all but the newest ticks of every schedule; returns how many were removed.
WITH old AS MATERIALIZED (
    SELECT s.name, (
        SELECT k.at
        FROM windlass_tick AS k
        WHERE k.schedule = s.name
        ORDER BY k.at DESC
        LIMIT 1 OFFSET :keep
    ) AS upto
    FROM windlass_schedule AS s
)
DELETE FROM windlass_tick
WHERE (schedule, at) IN (
    SELECT t.schedule, t.at
    FROM old AS o
    CROSS JOIN windlass_tick AS t
    WHERE t.schedule = o.name
        AND t.at <= o.upto
);
SELECT changes() AS removed;

-- column: agenda.tick_in
-- Seconds until the next tick is due; NULL if no schedule fires.
((SELECT min(s.next_at) FROM windlass_schedule AS s) - :now) / 1000000.0
