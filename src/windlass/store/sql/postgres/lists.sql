-- Lists go to the one table that can hold the asked state, by id from newest to oldest, never through the view.
-- Columns are those of `get`; result, outputs and progress of live jobs are read by `get` only.

-- name: list.live
-- Queued (held = false) or processing (held = true) jobs before a cursor.
SELECT j.id, j.kind, j.phase, CASE WHEN j.token IS NULL THEN 'queued' ELSE 'processing' END AS state, j.lane, j.generation,
    j.attempt, j.crashes, j.max_attempts, j.args, j.correlation, j.created_at, COALESCE(j.claimed_at, j.ready_at) AS updated_at,
    j.ready_at AS run_at, COALESCE(j.started_at, j.claimed_at) AS started_at, j.claimed_at, NULL::timestamptz AS finished_at,
    j.cancel_at, NULL::text AS reason, 0 AS pending, NULL::jsonb AS result, NULL::jsonb AS error, NULL::text AS traceback,
    NULL::jsonb AS outputs, NULL::jsonb AS progress
FROM windlass.job AS j
WHERE j.id < :before::uuid
    AND (:held::boolean IS NULL OR (j.token IS NOT NULL) = :held::boolean)
    AND (:kind::text IS NULL OR j.kind = :kind)
    AND (:phase::text IS NULL OR j.phase = :phase)
    AND (:correlation::text IS NULL OR COALESCE(j.correlation, j.id::text) = :correlation)
ORDER BY j.id DESC
LIMIT :limit;

-- name: list.later
-- Jobs that wait for one of these reasons, before a cursor.
SELECT l.id, l.kind, l.phase,
    CASE WHEN l.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN l.reason = 'inbox' THEN 'queued' ELSE 'waiting' END AS state,
    l.lane, l.generation, l.attempt, l.crashes, l.max_attempts, l.args, l.correlation, l.created_at, l.created_at AS updated_at,
    l.run_at, l.started_at, NULL::timestamptz AS claimed_at, NULL::timestamptz AS finished_at, NULL::timestamptz AS cancel_at,
    l.reason, l.pending, NULL::jsonb AS result, NULL::jsonb AS error, NULL::text AS traceback, NULL::jsonb AS outputs,
    NULL::jsonb AS progress
FROM windlass.job_later AS l
WHERE l.id < :before::uuid
    AND l.reason = ANY(:reasons::text[])
    AND (:kind::text IS NULL OR l.kind = :kind)
    AND (:phase::text IS NULL OR l.phase = :phase)
    AND (:correlation::text IS NULL OR COALESCE(l.correlation, l.id::text) = :correlation)
ORDER BY l.id DESC
LIMIT :limit;

-- name: list.completed
-- Completed jobs before a cursor.
SELECT d.id, d.kind, d.phase, d.state, d.lane, d.generation, d.attempt, d.crashes, d.max_attempts, d.args, d.correlation,
    d.created_at, d.finished_at AS updated_at, NULL::timestamptz AS run_at, COALESCE(d.started_at, d.claimed_at) AS started_at,
    d.claimed_at, d.finished_at, NULL::timestamptz AS cancel_at, NULL::text AS reason, 0 AS pending, d.result, d.error,
    d.traceback, d.outputs, d.progress
FROM windlass.job_done AS d
WHERE d.id < :before::uuid
    AND d.state = 'completed'
    AND (:kind::text IS NULL OR d.kind = :kind)
    AND (:phase::text IS NULL OR d.phase = :phase)
    AND (:correlation::text IS NULL OR COALESCE(d.correlation, d.id::text) = :correlation)
ORDER BY d.id DESC
LIMIT :limit;

-- name: list.ended_badly
-- Failed or cancelled jobs before a cursor; the literal condition is what lets the partial index serve it.
SELECT d.id, d.kind, d.phase, d.state, d.lane, d.generation, d.attempt, d.crashes, d.max_attempts, d.args, d.correlation,
    d.created_at, d.finished_at AS updated_at, NULL::timestamptz AS run_at, COALESCE(d.started_at, d.claimed_at) AS started_at,
    d.claimed_at, d.finished_at, NULL::timestamptz AS cancel_at, NULL::text AS reason, 0 AS pending, d.result, d.error,
    d.traceback, d.outputs, d.progress
FROM windlass.job_done AS d
WHERE d.id < :before::uuid
    AND d.state <> 'completed' -- belt: implied by the next line; the planner needs it to prove the partial index
    AND d.state = :state::text
    AND (:kind::text IS NULL OR d.kind = :kind)
    AND (:phase::text IS NULL OR d.phase = :phase)
    AND (:correlation::text IS NULL OR COALESCE(d.correlation, d.id::text) = :correlation)
ORDER BY d.id DESC
LIMIT :limit;
