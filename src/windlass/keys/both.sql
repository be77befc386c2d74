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
-- Frees the keys of throttled jobs that are cancelled: their period is over, and the next submit makes a job.
DELETE FROM windlass.job_key AS k
WHERE {{one_of(k.job, :ids::uuid[])}}
    AND k.scope || '' = 'throttle';

-- name: keys.of
-- The keys that lead to a job, by scope and name.
SELECT k.scope, k.key
FROM (
    SELECT h.scope, h.key
    FROM windlass.job_key AS h
    WHERE h.job = :id::uuid
        AND (h.expires_at IS NULL OR h.expires_at > {{now}})
    OFFSET 0
) AS k
ORDER BY k.scope, k.key;

-- name: keys.drop
-- Frees all keys that lead to jobs that are removed by hand.
DELETE FROM windlass.job_key AS k
WHERE {{one_of(k.job, :ids::uuid[])}};

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

-- name: key.jobs
-- The jobs that keys lead to now, in any of their scopes, before a job, newest first.
SELECT l.job
FROM (
    SELECT k.job
    FROM windlass.job_key AS k
    WHERE k.scope IN ('live', 'idempotent', 'throttle', 'debounce') -- belt: all there are; the key of the table begins with the scope
        AND {{one_of(k.key, :keys::text[])}}
    OFFSET 0
) AS l
WHERE l.job < :before::uuid
ORDER BY l.job DESC
LIMIT :limit::bigint;

-- fragment: sought(job)
-- A search may ask for jobs by their keys: a job holds the key, or held it when it ended.
AND (
    :keys::text[] IS NULL
    OR {{is_key({job}.key, {job}, :keys::text[])}}
    OR {{is_led_to({job}, :keys::text[])}}
)
AND (
    :not_keys::text[] IS NULL -- belt: without a list there is nothing to find
    OR NOT (COALESCE({{is_key({job}.key, {job}, :not_keys::text[])}}, FALSE) OR {{is_led_to({job}, :not_keys::text[])}})
)

-- fragment: is_led_to(job, list)
-- Whether one of these keys leads to a job.
EXISTS (
    SELECT 1
    FROM windlass.job_key AS k
    WHERE k.job = {job}.id
        AND {{is_key(k.key, {job}, {list})}}
    OFFSET 0
)

-- fragment: is_key(key, job, list)
-- Whether a stored key, which is the kind of its job, a colon and the key, is one of a list: whole, or without the kind.
({{one_of({key}, {list})}} OR {{one_of(substr({key}, length({job}.kind) + 2), {list})}})

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
