-- Expiry on SQLite: one writer at a time, so that nothing has to be locked.

-- name: expiry.lock
-- Those of these jobs that have not begun, wherever they are.
SELECT j.id, j.flags, j.token, j.kind, j.phase, j.attempt, j.max_attempts, COALESCE(j.correlation, j.id) AS correlation, 0 AS is_later
FROM json_each(:ids) AS g
CROSS JOIN windlass_job AS j ON j.id = g.value
WHERE j.flags & {EXPIRES} <> 0
UNION ALL
SELECT l.id, l.flags, NULL, l.kind, l.phase, l.attempt, l.max_attempts, COALESCE(l.correlation, l.id), 1
FROM json_each(:ids) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value
WHERE l.flags & {EXPIRES} <> 0;

-- name: expiry.queued
-- Ends queued jobs that expiry.lock found, each with its own error.
{{cancelled(j, g.value -> '$.error')}}
FROM {{given_jobs(:jobs)}};
INSERT INTO windlass_delta (phase, queued, cancelled)
SELECT j.phase, -count(*), count(*)
FROM {{given_jobs(:jobs)}}
GROUP BY j.phase;
DELETE FROM windlass_job
WHERE id IN (SELECT g.value ->> '$.id' FROM json_each(:jobs) AS g)
RETURNING id;

-- name: expiry.later
-- Ends waiting jobs that expiry.lock found, each with its own error.
{{cancelled(l, g.value -> '$.error')}}
FROM json_each(:jobs) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value ->> '$.id';
INSERT INTO windlass_delta (phase, waiting, scheduled, queued, cancelled)
SELECT l.phase, -sum(l.reason IN ('waiting', 'unlinked', 'limited', 'paced')), -sum(l.reason IN ('scheduled', 'retry')), -sum(l.reason = 'inbox'), count(*)
FROM json_each(:jobs) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value ->> '$.id'
GROUP BY l.phase;
DELETE FROM windlass_job_later
WHERE id IN (SELECT g.value ->> '$.id' FROM json_each(:jobs) AS g)
RETURNING id;

-- column: agenda.expire_in
-- Seconds until the next job expires; NULL if none can.
((SELECT e.expires_at FROM windlass_expiry AS e ORDER BY e.expires_at LIMIT 1) - :now) / 1000000.0
