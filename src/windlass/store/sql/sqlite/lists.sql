-- Lists go to the one table that can hold the asked state, by id from newest to oldest, never through the view.

-- name: list.live
-- Queued (held = 0) or processing (held = 1) jobs before a cursor, with the progress they have now.
{{live_jobs}}
WHERE j.id < :before
    AND (:held IS NULL OR (j.token IS NOT NULL) = :held)
    AND {{is_listed(j)}}
ORDER BY j.id DESC
LIMIT :limit;

-- name: list.later
-- Jobs that wait for one of these reasons, before a cursor, with the progress they have and the outcome of the last attempt.
{{later_jobs}}
WHERE l.id < :before
    AND l.reason IN (SELECT g.value FROM json_each(:reasons) AS g)
    AND {{is_listed(l)}}
ORDER BY l.id DESC
LIMIT :limit;

-- fragment: live_jobs
-- Queued and processing jobs with the columns of `get`. WHERE follows.
SELECT j.id, j.kind, j.phase, CASE WHEN j.token IS NULL THEN 'queued' ELSE 'processing' END AS state, j.lane, j.generation,
    j.attempt, j.crashes, j.max_attempts, j.args, j.correlation, j.created_at,
    max(COALESCE(j.claimed_at, j.ready_at), COALESCE(p.at, 0)) AS updated_at,
    j.ready_at AS run_at, COALESCE(j.started_at, j.claimed_at) AS started_at, j.claimed_at, NULL AS finished_at, j.cancel_at,
    CASE WHEN w.name IS NOT NULL THEN 'paused' END AS reason, 0 AS pending, NULL AS result, NULL AS error, NULL AS traceback, NULL AS outputs,
    CASE WHEN p.job IS NOT NULL THEN {{as_progress(p)}} END AS progress,
    NULL AS error_at, p.at AS saved_at
FROM windlass_job AS j
LEFT JOIN windlass_checkpoint AS p ON p.job = j.id
LEFT JOIN windlass_phase AS w ON w.name = j.phase AND j.token IS NULL AND {{lasts(w, :now)}}

-- fragment: later_jobs
-- Jobs that wait with the columns of `get`. WHERE follows.
SELECT l.id, l.kind, l.phase,
    CASE WHEN l.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN l.reason = 'inbox' THEN 'queued' ELSE 'waiting' END AS state,
    l.lane, l.generation, l.attempt, l.crashes, l.max_attempts, l.args, l.correlation, l.created_at,
    max(
        l.created_at, COALESCE(p.at, 0), COALESCE(a.ended_at, 0),
        CASE WHEN l.reason IN ('limited', 'paced', 'waiting') THEN min(l.run_at, :now) ELSE 0 END
    ) AS updated_at,
    l.run_at, l.started_at, NULL AS claimed_at, NULL AS finished_at, NULL AS cancel_at, l.reason, l.pending, NULL AS result,
    a.error, a.traceback, NULL AS outputs,
    CASE WHEN p.job IS NOT NULL THEN {{as_progress(p)}} END AS progress,
    a.ended_at AS error_at, p.at AS saved_at
FROM windlass_job_later AS l
LEFT JOIN windlass_checkpoint AS p ON p.job = l.id
LEFT JOIN windlass_attempt AS a ON {{is_last_attempt(a, l)}}
