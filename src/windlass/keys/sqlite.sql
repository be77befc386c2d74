-- name: enqueue.keys
-- Takes unique keys and returns the holder of each: a caller that finds its own job's id has won it; an expired key changes
-- hands.
INSERT INTO windlass_job_key AS k (scope, key, job, body_hash, expires_at)
SELECT g.value ->> '$.scope', g.value ->> '$.key', g.value ->> '$.job', g.value ->> '$.body_hash',
    CAST(:now + (g.value ->> '$.lasts') * 1000000 AS INTEGER)
FROM json_each(:keys) AS g
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (scope, key) DO UPDATE
SET job = CASE WHEN k.expires_at <= :now THEN excluded.job ELSE k.job END,
    body_hash = CASE WHEN k.expires_at <= :now THEN excluded.body_hash ELSE k.body_hash END,
    expires_at = CASE WHEN k.expires_at <= :now THEN excluded.expires_at ELSE k.expires_at END
RETURNING scope, key, job, body_hash;

-- name: cancel.throttle
-- Frees the key of a throttled job that is cancelled: its period is over, and the next submit makes a job.
DELETE FROM windlass_job_key
WHERE job = :id
    AND scope || '' = 'throttle';

-- name: debounce.replace
-- Gives the scheduled job of a debounced key new arguments and a new time; no row if it is no longer scheduled.
UPDATE windlass_job_later
SET args = :job -> '$.args',
    run_at = CAST(COALESCE(:job ->> '$.run_at', :now + (:job ->> '$.delay') * 1000000) AS INTEGER),
    lane = :job ->> '$.lane',
    max_attempts = :job ->> '$.max_attempts',
    flags = (flags & ~{BROUGHT}) | (:job ->> '$.flags' & {BROUGHT})
WHERE id = :id
    AND reason = 'scheduled'
RETURNING id, NULL;

-- name: debounce.keep
-- Has a debounced key lead to a job that waits, for as long as it may wait and a month more.
UPDATE windlass_job_key
SET job = l.id,
    expires_at = l.run_at + 2592000000000
FROM windlass_job_later AS l
WHERE windlass_job_key.scope = 'debounce'
    AND windlass_job_key.key = :key
    AND l.id = :job;

-- name: prune.keys
-- Removes idempotency keys whose time is over.
DELETE FROM windlass_job_key
WHERE expires_at < :now;

-- column: history.key(job)
-- The live key of a job that ends, so that a retry by hand can take the key again.
(
    SELECT k.key
    FROM windlass_job_key AS k
    WHERE k.job = {job}.id
        AND k.scope = 'live'
)

-- fragment: leads_to(key)
-- Whether a key still leads to its job, although the job has ended.
{key}.scope IN ('idempotent', 'throttle')
AND {key}.expires_at > :now

-- fragment: kept(job)
-- A job that a key leads to is not pruned.
AND NOT EXISTS (
    SELECT 1 FROM windlass_job_key AS k
    WHERE k.job = {job}.id
        AND {{leads_to(k)}}
)

-- fragment: tidied
-- An ended job frees its live key.
DELETE FROM windlass_job_key
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g)
    AND scope = 'live';
