-- name: debounce.replace
-- Gives the scheduled job of a debounced key new arguments and a new time (rows of other tables are updated by the caller), and notifies
-- waiting instances; no row if it is no longer scheduled. Waits for a transaction that is moving it.
WITH replaced AS (
    UPDATE windlass.job_later AS l
    SET args = g.args,
        run_at = COALESCE(g.run_at, {{now}} + g.delay * interval '1 second'),
        lane = g.lane,
        max_attempts = g.max_attempts,
        flags = (l.flags & ~{BROUGHT}) | (g.flags & {BROUGHT})
    FROM json_to_record(:job::json) AS g (
        args jsonb, run_at timestamptz, delay double precision, lane smallint, max_attempts smallint, flags smallint
    )
    WHERE l.id = :id::uuid
        AND l.reason = 'scheduled'
    RETURNING l.id
)
SELECT r.id::text, (
        SELECT n.pg_notify
        FROM ({{notified('@later')}}) AS n
    )
FROM replaced AS r;

-- fragment: needed(table)
-- The same for a whole table of history: whether a key leads to one of its jobs.
OR EXISTS (
    SELECT FROM windlass.job_key AS k
    JOIN {table} AS d ON d.id = k.job
    WHERE {{leads_to(k)}}
)

-- fragment: tidied
-- An ended job frees its live key.
, freed_keys AS (
    DELETE FROM windlass.job_key AS k
    WHERE k.job = ANY(:ids::uuid[])
        AND k.scope || '' = 'live'
)
