-- Lists go to the one table that can hold the asked state, by id from newest to oldest, never through the view.
-- Columns are those of `get`; outputs of live jobs are read by `get` only. Other tables are read for the rows of the page only.

-- name: list.live
-- Queued (held = false) or processing (held = true) jobs before a cursor, with the progress they have now.
{{live_jobs((
    SELECT l.*
    FROM windlass.job AS l
    WHERE l.id < :before::uuid
        AND (:held::boolean IS NULL OR (l.token IS NOT NULL) = :held::boolean)
        AND {{is_listed(l)}}
    ORDER BY l.id DESC
    LIMIT :limit
))}}
ORDER BY j.id DESC;

-- name: list.later
-- Jobs that wait for one of these reasons, before a cursor, with the progress they have and the outcome of the last attempt.
{{later_jobs((
    SELECT l.*
    FROM windlass.job_later AS l
    WHERE l.id < :before::uuid
        AND l.reason = ANY(:reasons::text[])
        AND {{is_listed(l)}}
    ORDER BY l.id DESC
    LIMIT :limit
))}}
ORDER BY j.id DESC;

-- fragment: live_jobs(rows)
-- Queued and processing jobs with the columns of `get`.
SELECT j.id, j.kind, j.phase, CASE WHEN j.token IS NULL THEN 'queued' ELSE 'processing' END AS state, j.lane, j.generation,
    j.attempt, j.crashes, j.max_attempts, j.args, j.correlation, j.created_at,
    GREATEST(COALESCE(j.claimed_at, j.ready_at), p.at) AS updated_at,
    j.ready_at AS run_at, COALESCE(j.started_at, j.claimed_at) AS started_at, j.claimed_at, NULL::timestamptz AS finished_at,
    j.cancel_at, w.reason, 0 AS pending, NULL::jsonb AS result, NULL::jsonb AS error, NULL::text AS traceback,
    NULL::jsonb AS outputs, p.progress, NULL::timestamptz AS error_at, p.at AS saved_at
FROM {rows} AS j
LEFT JOIN LATERAL (
    SELECT c.at, {{as_progress(c)}} AS progress
    FROM windlass.checkpoint AS c
    WHERE c.job = j.id
    LIMIT 1 -- belt: the job is its key; keeps the look-up from becoming a join
) AS p ON j.flags & {CHECKPOINT} <> 0
LEFT JOIN LATERAL (
    SELECT 'paused'::text AS reason
    FROM windlass.phase AS o
    WHERE o.name = j.phase
        AND {{lasts(o, {{now_once}})}}
    LIMIT 1 -- belt: the name is its key; keeps the look-up from becoming a join
) AS w ON j.token IS NULL

-- fragment: later_jobs(rows)
-- Jobs that wait with the columns of `get`.
SELECT j.id, j.kind, j.phase,
    CASE WHEN j.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN j.reason = 'inbox' THEN 'queued' ELSE 'waiting' END AS state,
    j.lane, j.generation, j.attempt, j.crashes, j.max_attempts, j.args, j.correlation, j.created_at,
    GREATEST(j.created_at, p.at, a.ended_at, CASE WHEN j.reason IN ('limited', 'paced', 'waiting') THEN LEAST(j.run_at, clock.at) END) AS updated_at,
    j.run_at, j.started_at, NULL::timestamptz AS claimed_at, NULL::timestamptz AS finished_at, NULL::timestamptz AS cancel_at,
    j.reason, j.pending, NULL::jsonb AS result, a.error, a.traceback, NULL::jsonb AS outputs,
    p.progress, a.ended_at AS error_at, p.at AS saved_at
FROM {rows} AS j
CROSS JOIN (SELECT {{now}} AS at) AS clock
LEFT JOIN LATERAL (
    SELECT c.at, {{as_progress(c)}} AS progress
    FROM windlass.checkpoint AS c
    WHERE c.job = j.id
    LIMIT 1 -- belt: the job is its key; keeps the look-up from becoming a join
) AS p ON j.flags & {CHECKPOINT} <> 0
LEFT JOIN {{last_attempt(j)}} AS a ON j.started_at IS NOT NULL
