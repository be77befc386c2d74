-- Lists of history. They go to the one table that can hold the asked state, by id from newest to oldest, never through the view.

-- name: list.completed
-- Completed jobs before a cursor.
{{ended_jobs}}
WHERE d.id < :before::uuid
    AND d.state = 'completed'
    AND {{is_listed(d)}}
ORDER BY d.id DESC
LIMIT :limit;

-- name: list.ended_badly
-- Failed or cancelled jobs before a cursor; the literal condition is what lets the partial index serve it.
{{ended_jobs}}
WHERE d.id < :before::uuid
    AND d.state <> 'completed' -- belt: implied by the next line; the planner needs it to prove the partial index
    AND d.state = :state::text
    AND {{is_listed(d)}}
ORDER BY d.id DESC
LIMIT :limit;

-- fragment: ended_jobs
-- Jobs of history with the columns of `get`. WHERE follows.
SELECT d.id, d.kind, d.phase, d.state, d.lane, d.generation, d.attempt, d.crashes, d.max_attempts, d.args, d.correlation,
    d.created_at, d.finished_at AS updated_at, NULL::timestamptz AS run_at, COALESCE(d.started_at, d.claimed_at) AS started_at,
    d.claimed_at, d.finished_at, NULL::timestamptz AS cancel_at, NULL::text AS reason, 0 AS pending, d.result, d.error,
    d.traceback, d.outputs, d.progress, d.finished_at AS error_at, NULL::timestamptz AS saved_at
FROM windlass.job_done AS d

-- fragment: is_listed(job)
-- Whether a job is of the kind, phase and correlation id that are asked for.
(:kind::text IS NULL OR {job}.kind = :kind)
AND (:phase::text IS NULL OR {job}.phase = :phase)
AND (:correlation::text IS NULL OR COALESCE({job}.correlation, {job}.id::text) = :correlation)

-- name: failures
-- The newest failed jobs before a cursor, by their cause; jobs that are not asked for, or not in scope, are in a row without a kind. Only jobs
-- in scope are counted as searched: the number of the others is not the actor's to know.
SELECT
    CASE WHEN w.is_seen AND w.is_asked THEN w.kind END AS kind,
    CASE WHEN w.is_seen AND w.is_asked THEN w.phase END AS phase,
    CASE WHEN w.is_seen AND w.is_asked THEN w.error ->> 'type' END AS type,
    CASE WHEN w.is_seen AND w.is_asked THEN w.error ->> 'code' END AS code,
    CASE WHEN w.is_seen AND w.is_asked THEN w.error ->> 'place' END AS place,
    max(substr(w.error ->> 'message', 1, 200)) AS message,
    count(*) FILTER (WHERE w.finished_at >= :hour::timestamptz) AS in_hour,
    count(*) FILTER (WHERE w.finished_at >= :day::timestamptz) AS in_day,
    count(*) FILTER (WHERE w.finished_at >= :week::timestamptz) AS in_week,
    count(*) AS total,
    min(w.finished_at) AS first_at,
    max(w.finished_at) AS last_at,
    max(w.id::text) AS sample,
    count(*) FILTER (WHERE w.is_seen) AS searched,
    count(*) AS read,
    min(w.id::text) AS last_id
FROM (
    SELECT d.id, d.kind, d.phase, d.error, d.finished_at,
        (:kind::text IS NULL OR d.kind = :kind) AND (:phase::text IS NULL OR d.phase = :phase) AS is_asked,
        (TRUE {{in_scope(d)}}) AS is_seen
    FROM windlass.job_done AS d
    WHERE d.id < :before::uuid
        AND d.state <> 'completed' -- belt: implied by the next line; the planner needs it to prove the partial index
        AND d.state = 'failed'
    ORDER BY d.id DESC
    LIMIT :limit
) AS w
GROUP BY 1, 2, 3, 4, 5;
