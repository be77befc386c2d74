-- Schedules and their ticks on SQLite.

-- name: fire.due
-- Whether any schedule is due: a read, so that an idle instance never writes.
SELECT 1
FROM windlass_schedule AS s
WHERE s.next_at <= :now
LIMIT 1;

-- name: fire.pick
-- Returns due schedules, longest due first, with the current time, except those that are left to others.
SELECT {{schedule_columns(s)}}, :now AS fired_at
FROM windlass_schedule AS s
WHERE s.next_at <= :now
    AND s.name NOT IN (SELECT g.value FROM json_each(:without) AS g)
ORDER BY s.next_at, s.name
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

-- fragment: next_interval(anchor, at, every)
-- The first due time after a time, of an interval of so many seconds; in whole microseconds, so that it is the same that Python computes.
{anchor} + (({at} - {anchor}) / CAST(round({every} * 1000000) AS INTEGER) + 1) * CAST(round({every} * 1000000) AS INTEGER)

-- column: agenda.tick_in
-- Seconds until the next tick is due; NULL if no schedule fires.
((SELECT min(s.next_at) FROM windlass_schedule AS s) - :now) / 1000000.0
