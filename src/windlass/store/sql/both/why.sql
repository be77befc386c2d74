-- Why a job is not running: what the core knows of one job and of the queue before it. Look-ups by index; counts end at :limit.

-- name: why.job
-- One job, wherever it is, with what decides whether it runs: place is job, later or done. `at` is when it became ready, is due or ended;
-- of a job that waits, the error is that of its last attempt in its phase.
SELECT 'job' AS place, j.kind, j.phase, j.lane, j.generation, j.attempt, j.max_attempts, j.flags, j.created_at, j.ready_at AS at, j.claimed_at,
    j.cancel_at, j.cancel_reason, h.instance, NULL::text AS reason, 0 AS pending, NULL::text AS gate, NULL::jsonb AS error, {{now}} AS now
FROM windlass.job AS j
LEFT JOIN windlass.claim AS h ON {{found_by(h.token, j.token)}}
WHERE j.id = :id::uuid
UNION ALL
SELECT 'later', l.kind, l.phase, l.lane, l.generation, l.attempt, l.max_attempts, l.flags, l.created_at, l.run_at, NULL::timestamptz,
    NULL::timestamptz, NULL::text, NULL::uuid, l.reason, l.pending, l.gate, (
        SELECT t.error
        FROM windlass.attempt AS t
        WHERE t.job = l.id
            AND t.generation = l.generation
            AND t.phase = l.phase -- belt: the newest attempt of a job that advanced ended without an error
        ORDER BY abs(t.token) DESC
        LIMIT 1
    ), {{now}}
FROM windlass.job_later AS l
WHERE l.id = :id::uuid
UNION ALL
SELECT 'done', d.kind, d.phase, d.lane, d.generation, d.attempt, d.max_attempts, d.flags, d.created_at, d.finished_at, d.claimed_at,
    NULL::timestamptz, NULL::text, d.instance, d.state, 0, NULL::text, d.error, {{now}}
FROM windlass.job_done AS d
WHERE d.id = :id::uuid;

-- name: why.pause
-- The pause of a phase, if it lasts.
SELECT p.paused_at, p.paused_until, p.reason
FROM windlass.phase AS p
WHERE p.name = :phase::text
    AND {{lasts(p, {{now_once}})}};
