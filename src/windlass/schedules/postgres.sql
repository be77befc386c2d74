-- Schedules and their ticks on PostgreSQL.

-- name: fire.pick
-- Locks due schedules, longest due first, leaving out those that another instance fires or that are left to others; returns them with the current time. A
-- process that stops in the middle of this transaction frees them after five seconds.
SELECT set_config('idle_in_transaction_session_timeout', '5000', true);
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
)
SELECT {{schedule_columns(s)}}, c.at AS fired_at
FROM windlass.schedule AS s
CROSS JOIN clock AS c
WHERE s.next_at <= (SELECT at FROM clock)
    AND s.name <> ALL(:without::text[])
ORDER BY s.next_at, s.name
LIMIT :limit
FOR UPDATE OF s SKIP LOCKED;

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

-- fragment: next_interval(anchor, at, every)
-- The first due time after a time, of an interval of so many seconds; in whole microseconds, so that it is the same that Python computes.
{anchor} + (
    ((EXTRACT(epoch FROM {at} - {anchor}) * 1000000)::bigint / round({every} * 1000000)::bigint + 1) * round({every} * 1000000)::bigint
) * interval '1 microsecond'

-- column: agenda.tick_in
-- Seconds until the next tick is due; NULL if no schedule fires.
EXTRACT(epoch FROM (SELECT min(s.next_at) FROM windlass.schedule AS s) - clock.at)::double precision
