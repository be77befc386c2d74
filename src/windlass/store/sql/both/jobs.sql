-- Verbs of a job's life with one text for both databases, in the words of PostgreSQL (statements.py says what SQLite leaves out).
-- Promises about locks are about PostgreSQL: SQLite has one writer at a time.

-- name: checkpoint.flag
-- Notes on the job row that a checkpoint exists, once per job, so that its end folds it into history.
UPDATE windlass.job AS j
SET flags = j.flags | {CHECKPOINT}
WHERE j.id = :id::uuid
    AND j.token = :token::bigint;

-- name: checkpoint.get
-- The saved position of a job.
SELECT p.done, p.total, p.position, p.at
FROM windlass.checkpoint AS p
WHERE p.job = :id::uuid;

-- name: retry.peek
-- State, flags and time of the end of an ended job, locked so that no other session retries or deletes it.
SELECT d.state, d.flags, d.finished_at
FROM windlass.job_done AS d
WHERE d.id = :id::uuid
FOR UPDATE;

-- name: attempts
-- The attempts of a job that did not end it, oldest first.
SELECT a.job, a.generation, a.phase, a.attempt, a.outcome, a.started_at, a.ended_at, a.error, a.traceback, a.instance, a.processor
FROM windlass.attempt AS a
WHERE a.job = :id::uuid
ORDER BY abs(a.token);

-- name: timeline
-- All attempts of a job, oldest first: those that did not end it, the one that did, and the running one. One statement,
-- so that an attempt that ends meanwhile is seen once. A job that expired before any instance held it has one entry for that, the last one.
SELECT t.phase, t.generation, t.attempt, t.instance, t.processor, t.waited_ms, t.ran_ms, t.claimed_at, t.ended_at, t.outcome, t.error
FROM (
    SELECT abs(a.token) AS token, a.phase, a.generation, a.attempt, a.instance, a.processor, a.waited_ms, a.ran_ms,
        a.started_at AS claimed_at, a.ended_at, a.outcome, a.error
    FROM windlass.attempt AS a
    WHERE a.job = :id::uuid
    UNION ALL
    SELECT COALESCE(abs(d.token), 9223372036854775807), d.phase, d.generation, d.attempt, d.instance, d.processor, d.waited_ms, d.ran_ms,
        COALESCE(d.claimed_at, d.finished_at), d.finished_at, d.state, d.error
    FROM windlass.job_done AS d
    WHERE d.id = :id::uuid
        AND (
            d.token IS NOT NULL
            OR d.error ->> 'code' = 'expired'
        )
    UNION ALL
    SELECT j.token, j.phase, j.generation, j.attempt, h.instance, NULL, NULL, NULL, j.claimed_at, NULL, 'processing', NULL
    FROM windlass.job AS j
    LEFT JOIN windlass.claim AS h ON h.token = j.token
    WHERE j.id = :id::uuid
        AND j.token IS NOT NULL
) AS t
ORDER BY t.token;

-- name: make_due
-- Makes a scheduled or retrying job due now; returns its id, or no row if there is none.
UPDATE windlass.job_later AS l
SET run_at = {{now}}
WHERE l.id = :id::uuid
    AND l.reason IN ('scheduled', 'retry')
    AND l.run_at > {{now}}
RETURNING id;

-- name: is_due
-- Whether a scheduled or retrying job is due already.
SELECT 1
FROM windlass.job_later AS l
WHERE l.id = :id::uuid
    AND l.reason IN ('scheduled', 'retry')
    AND l.run_at <= {{now}};

-- fragment: to_queue(row, ready)
-- Puts rows of job_later into the queue, each ready from a time on. FROM follows.
INSERT INTO windlass.job (id, created_at, ready_at, started_at, lane, generation, attempt, crashes, max_attempts, flags, kind, phase,
    correlation, args)
SELECT {row}.id, {row}.created_at, {ready}, {row}.started_at, {row}.lane, {row}.generation, {row}.attempt, {row}.crashes,
    {row}.max_attempts, {{queued_flags({row})}}, {row}.kind, {row}.phase, {row}.correlation, {row}.args

-- fragment: cancelled(row, error)
-- Moves rows of job or job_later to history, cancelled. FROM follows.
INSERT INTO windlass.job_done (id, created_at, finished_at, started_at, lane, generation, attempt, crashes, max_attempts, flags, state,
    kind, phase, correlation, args, error, outputs, progress{{history.names}})
SELECT {row}.id, {row}.created_at, {{now}}, {row}.started_at, {row}.lane, {row}.generation, {row}.attempt, {row}.crashes,
    {row}.max_attempts, {row}.flags, 'cancelled', {row}.kind, {row}.phase, {row}.correlation, {row}.args, {error},
    {{outputs_of({row})}}, {{progress_of({row})}}{{history.values({row})}}

-- fragment: progress_of(job)
-- The progress of a job that has a checkpoint, else NULL.
(SELECT {{as_progress(p)}} FROM windlass.checkpoint AS p WHERE p.job = {job}.id)
