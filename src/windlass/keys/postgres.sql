-- name: enqueue.keys
-- Takes unique keys in sorted order and returns the holder of each: a caller that finds its own job's id has won it. Waits
-- for another caller's uncommitted key, because uniqueness is a wait; an expired key changes hands.
INSERT INTO windlass.job_key AS k (scope, key, job, body_hash, expires_at)
SELECT g.scope, g.key, g.job, g.body_hash,
    {{now}} + g.lasts * interval '1 second'
FROM json_to_recordset(:keys::json) AS g (scope text, key text, job uuid, body_hash text, lasts double precision)
ORDER BY g.scope, g.key
ON CONFLICT (scope, key) DO UPDATE
SET job = CASE WHEN k.expires_at <= {{now}} THEN excluded.job ELSE k.job END,
    body_hash = CASE WHEN k.expires_at <= {{now}} THEN excluded.body_hash ELSE k.body_hash END,
    expires_at = CASE WHEN k.expires_at <= {{now}} THEN excluded.expires_at ELSE k.expires_at END
RETURNING k.scope, k.key, k.job::text, k.body_hash;

-- name: cancel.throttle
-- Frees the key of a throttled job that is cancelled: its period is over, and the next submit makes a job.
DELETE FROM windlass.job_key AS k
WHERE k.job = :id::uuid
    AND k.scope || '' = 'throttle';

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
        SELECT pg_notify('windlass', w.phase)::text
        FROM windlass.wake AS w
        WHERE w.phase = '@later'
            AND w.waiting_until > clock_timestamp()
    )
FROM replaced AS r;

-- name: debounce.keep
-- Has a debounced key lead to a job that waits, for as long as it may wait and a month more.
UPDATE windlass.job_key AS k
SET job = l.id,
    expires_at = l.run_at + interval '30 days'
FROM windlass.job_later AS l
WHERE k.scope = 'debounce'
    AND k.key = :key
    AND l.id = :job::uuid;

-- name: prune.keys
-- Removes idempotency keys whose time is over.
DELETE FROM windlass.job_key AS k
WHERE k.expires_at < (SELECT {{now}});

-- column: history.key(job)
-- The live key of a job that ends, so that a retry by hand can take the key again.
(
    SELECT k.key
    FROM windlass.job_key AS k
    WHERE k.job = {job}.id
        AND k.scope = 'live'
)

-- fragment: leads_to(key)
-- Whether a key still leads to its job, although the job has ended.
{key}.scope IN ('idempotent', 'throttle')
AND {key}.expires_at > {{now}}

-- fragment: kept(job)
-- A job that a key leads to is not pruned.
AND NOT EXISTS (
    SELECT FROM windlass.job_key AS k
    WHERE k.job = {job}.id
        AND {{leads_to(k)}}
    OFFSET 0
)

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
