-- Changes of jobs that have not begun.

-- name: edit.live
-- Locks a queued or processing job; returns what can be changed of it, and whether it has begun. Two statements: one alone would go on with the
-- row as it was before a claim that the lock had to wait for.
SELECT j.id
FROM windlass.job AS j
WHERE j.id = :id::uuid -- belt on sqlite: nothing is locked there, and nothing of this is read
FOR UPDATE;
SELECT j.lane, j.generation, j.flags, j.kind, j.phase, NULL::text AS reason, j.args, j.token IS NOT NULL AS is_held,
    (j.attempt > 0 OR j.crashes > 0 OR j.started_at IS NOT NULL) AS is_begun
FROM windlass.job AS j
WHERE j.id = :id::uuid;

-- name: edit.later
-- The same for a job that is not in its queue.
SELECT l.id
FROM windlass.job_later AS l
WHERE l.id = :id::uuid -- belt on sqlite: nothing is locked there, and nothing of this is read
FOR UPDATE;
SELECT l.lane, l.generation, l.flags, l.kind, l.phase, l.reason, l.args, FALSE AS is_held,
    (l.attempt > 0 OR l.crashes > 0 OR l.started_at IS NOT NULL) AS is_begun
FROM windlass.job_later AS l
WHERE l.id = :id::uuid;

-- name: edit.put_live
-- Gives a queued job another lane and, where they are given, other arguments.
UPDATE windlass.job AS j
SET lane = :lane::smallint,
    args = COALESCE(:args::jsonb, j.args)
WHERE j.id = :id::uuid
    AND j.token IS NULL -- belt: the row is locked, and edit.live saw that no instance holds the job
RETURNING id;

-- name: edit.put_later
-- The same for a job that is not in its queue.
UPDATE windlass.job_later AS l
SET lane = :lane::smallint,
    args = COALESCE(:args::jsonb, l.args)
WHERE l.id = :id::uuid
RETURNING id;
