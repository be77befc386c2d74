-- Unique keys, throttle and debounce.

-- name: enqueue.keys
-- Takes unique keys in sorted order and returns the holder of each: a caller that finds its own job's id has won it. Waits
-- for another caller's uncommitted key, because uniqueness is a wait; an expired key changes hands.
INSERT INTO windlass.job_key AS k (scope, key, job, body_hash, expires_at)
SELECT g.scope, g.key, g.job, g.body_hash,
    {{now}} + {{seconds(g.lasts)}}
FROM {{given(:keys, g, scope text, key text, job uuid, body_hash text, lasts double precision)}}
ORDER BY g.scope, g.key
ON CONFLICT (scope, key) DO UPDATE
SET job = CASE WHEN k.expires_at <= {{now}} THEN excluded.job ELSE k.job END,
    body_hash = CASE WHEN k.expires_at <= {{now}} THEN excluded.body_hash ELSE k.body_hash END,
    expires_at = CASE WHEN k.expires_at <= {{now}} THEN excluded.expires_at ELSE k.expires_at END
RETURNING scope, key, job::text, body_hash;

-- name: cancel.throttle
-- Frees the key of a throttled job that is cancelled: its period is over, and the next submit makes a job.
DELETE FROM windlass.job_key AS k
WHERE k.job = :id::uuid
    AND k.scope || '' = 'throttle';

-- name: debounce.keep
-- Has a debounced key lead to a job that waits, for as long as it may wait and a month more.
UPDATE windlass.job_key AS k
SET job = l.id,
    expires_at = l.run_at + {{seconds(2592000)}}
FROM windlass.job_later AS l
WHERE k.scope = 'debounce'
    AND k.key = :key
    AND l.id = :job::uuid;

-- name: prune.keys
-- Removes idempotency keys whose time is over.
DELETE FROM windlass.job_key AS k
WHERE k.expires_at < {{now_once}};

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
    SELECT 1 FROM windlass.job_key AS k
    WHERE k.job = {job}.id
        AND {{leads_to(k)}}
    OFFSET 0
)
