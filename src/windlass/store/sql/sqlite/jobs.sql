-- Verbs of a job's life on SQLite. Same verbs, same result columns as the PostgreSQL file. A verb here is one to several
-- statements run in order inside one BEGIN IMMEDIATE transaction (SQLite has no data-modifying CTEs); the rows of the last
-- one that returns any are the verb's result. There is one writer at a time, so nothing needs row locks, and what a first statement saw still
-- holds in the next. :now is the machine's clock, read after the write lock was taken.

-- name: enqueue
-- Inserts jobs and their counts; those whose kind is some rule's parent are flagged. Jobs of one call become ready a microsecond apart, in the order they were given.
INSERT INTO windlass_job (id, created_at, ready_at, lane, max_attempts, flags, kind, phase, correlation, args)
SELECT g.value ->> '$.id', :now, :now + g.key, g.value ->> '$.lane', g.value ->> '$.max_attempts',
    (g.value ->> '$.flags') {{new_flags(g.value ->> '$.kind')}},
    g.value ->> '$.kind', g.value ->> '$.phase', g.value ->> '$.correlation', g.value -> '$.args'
FROM json_each(:jobs) AS g
WHERE g.value ->> '$.pending' = 0
    AND COALESCE(g.value ->> '$.run_at', :now + (g.value ->> '$.delay') * 1000000, 0) <= :now
    AND NOT COALESCE(g.value ->> '$.inbox', 0)
    AND g.value ->> '$.flags' & {LIMIT} = 0
ORDER BY g.key;
INSERT INTO windlass_job_later
    (id, created_at, run_at, pending, lane, max_attempts, flags, reason, kind, phase, correlation, args)
SELECT g.value ->> '$.id', :now, CAST(COALESCE(g.value ->> '$.run_at', :now + (g.value ->> '$.delay') * 1000000, :now) AS INTEGER),
    g.value ->> '$.pending', g.value ->> '$.lane', g.value ->> '$.max_attempts',
    (g.value ->> '$.flags') {{new_flags(g.value ->> '$.kind')}},
    CASE
        WHEN g.value ->> '$.pending' > 0 THEN 'unlinked'
        WHEN COALESCE(g.value ->> '$.run_at', :now + (g.value ->> '$.delay') * 1000000, 0) > :now THEN 'scheduled'
        WHEN g.value ->> '$.flags' & {LIMIT} <> 0 THEN 'limited'
        ELSE 'inbox'
    END,
    g.value ->> '$.kind', g.value ->> '$.phase', g.value ->> '$.correlation', g.value -> '$.args'
FROM json_each(:jobs) AS g
WHERE g.value ->> '$.pending' > 0
    OR COALESCE(g.value ->> '$.run_at', :now + (g.value ->> '$.delay') * 1000000, 0) > :now
    OR COALESCE(g.value ->> '$.inbox', 0)
    OR g.value ->> '$.flags' & {LIMIT} <> 0
ORDER BY g.key;
INSERT INTO windlass_delta (phase, waiting, scheduled, queued)
SELECT s.phase, sum(s.place = 'waiting'), sum(s.place = 'scheduled'), sum(s.place = 'queued')
FROM (
    SELECT g.value ->> '$.phase' AS phase,
        CASE
            WHEN g.value ->> '$.pending' > 0 THEN 'waiting'
            WHEN COALESCE(g.value ->> '$.run_at', :now + (g.value ->> '$.delay') * 1000000, 0) > :now THEN 'scheduled'
            WHEN g.value ->> '$.flags' & {LIMIT} <> 0 THEN 'waiting'
            ELSE 'queued'
        END AS place
    FROM json_each(:jobs) AS g
) AS s
GROUP BY s.phase;

-- name: enqueue.one
-- The verb `enqueue` for one job that is ready now and has no feature, which costs a third of it: nothing is read from JSON.
INSERT INTO windlass_job (id, created_at, ready_at, lane, max_attempts, flags, kind, phase, correlation, args)
VALUES (:id, :now, :now, :lane, :max_attempts, 0 {{new_flags(:kind)}}, :kind, :phase, :correlation, :args);
INSERT INTO windlass_delta (phase, queued)
VALUES (:phase, 1);

-- name: enqueue.lock
-- Nothing to lock: there is one writer at a time.
SELECT NULL
WHERE FALSE; -- belt: returns nothing by design

-- name: enqueue.parents
-- Which of these jobs exist, their correlation ids, and their flags.
SELECT j.id, j.correlation, j.flags FROM windlass_job AS j WHERE j.id IN (SELECT g.value FROM json_each(:ids) AS g)
UNION ALL
SELECT l.id, l.correlation, l.flags FROM windlass_job_later AS l WHERE l.id IN (SELECT g.value FROM json_each(:ids) AS g)
UNION ALL
SELECT d.id, d.correlation, d.flags FROM windlass_job_done AS d WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g);

-- name: enqueue.present
-- Which of these ids exist, and in how many tables. Not through the view: SQLite does not push IN (SELECT …) into it and
-- would read all of history (540 ms at 600k jobs).
SELECT p.id, count(*)
FROM (
    SELECT j.id FROM windlass_job AS j WHERE j.id IN (SELECT g.value FROM json_each(:ids) AS g)
    UNION ALL
    SELECT l.id FROM windlass_job_later AS l WHERE l.id IN (SELECT g.value FROM json_each(:ids) AS g)
    UNION ALL
    SELECT d.id FROM windlass_job_done AS d WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g)
) AS p
GROUP BY p.id;

-- name: claim.ready
-- Whether a claim would find anything: a read, so that an idle instance never writes.
SELECT 1
FROM windlass_job AS j
WHERE j.phase = :phase
    AND j.token IS NULL
    AND j.ready_at <= :upto
    AND (:suspects OR j.flags & {SUSPECT} = 0)
LIMIT 1;

-- name: ready.phases
-- Which of these phases a claim would find a job in: one read for all of them.
SELECT g.value AS phase
FROM json_each(:phases) AS g
WHERE EXISTS (
        SELECT 1
        FROM windlass_job AS j
        WHERE j.phase = g.value
            AND j.token IS NULL
    )
    AND NOT {{is_paused(g.value, :now)}};

-- name: claim.token
-- A new fencing token.
INSERT INTO windlass_claim (instance, at, phase)
SELECT :instance, :now, :phase
WHERE {{is_alive(:instance)}}
    AND NOT {{is_paused(:phase, :now)}}
RETURNING token;

-- name: claim
-- Gives at most :limit jobs of a phase to the holder of a token, highest lane first, oldest first; no suspects where it has enough of them.
UPDATE windlass_job
SET token = :token,
    claimed_at = :now,
    attempt = attempt + 1,
    flags = CASE WHEN windlass_job.flags & {EXACT} <> 0 OR picked.place > :starting THEN windlass_job.flags & ~{STARTED} ELSE windlass_job.flags | {STARTED} END
FROM (
    SELECT j.rowid AS row, row_number() OVER () AS place
    FROM (
        SELECT r.rowid
        FROM windlass_job AS r
        WHERE r.phase = :phase
            AND r.token IS NULL
            AND r.ready_at <= :upto
            AND (:suspects OR r.flags & {SUSPECT} = 0)
        ORDER BY r.lane, r.ready_at, r.id
        LIMIT :limit
    ) AS j
) AS picked
WHERE windlass_job.rowid = picked.row
    AND windlass_job.token IS NULL -- belt: one writer, and picked was read inside this transaction
RETURNING id, token, kind, phase, lane, generation, attempt, max_attempts, crashes, flags, args, correlation, created_at,
    ready_at, claimed_at;

-- name: claim.none
-- Removes a token under which nothing was claimed.
DELETE FROM windlass_claim
WHERE token = :token;

-- name: claim.count
-- Counts a claim.
INSERT INTO windlass_delta (phase, queued, processing)
VALUES (:phase, -:n, :n);

-- name: claim.emptied
-- Removes claim rows whose jobs were all recorded by an earlier commit.
DELETE FROM windlass_claim
WHERE token IN (SELECT g.value FROM json_each(:emptied) AS g)
    AND instance = :instance;

-- name: record.plain
-- Moves held jobs whose end touches no other table to history, and returns how many. Only the holder of the token, only while no flag
-- asks for more. Outcomes are an object of lines by id (finish_lines of finish_rows.py), with fields at fixed places: token, processor, waited,
-- ran, a letter (completed, with a result, failed, cancelled: c, r, f, x) and the result or error. To read places of an array would take
-- three times as long. Each line is taken out once: json_each reads it anew wherever its value is named.
WITH g AS MATERIALIZED (
    SELECT e.key, e.value
    FROM json_each(:outcomes) AS e
)
INSERT INTO windlass_job_done (id, created_at, finished_at, claimed_at, started_at, token, lane, generation, attempt, crashes,
    max_attempts, flags, state, kind, phase, correlation, args, result, error, traceback, instance, processor, waited_ms, ran_ms)
SELECT j.id, j.created_at, :now, j.claimed_at, j.started_at, j.token, j.lane, j.generation, j.attempt, j.crashes, j.max_attempts,
    j.flags, CASE substr(g.value, 45, 1) WHEN 'f' THEN 'failed' WHEN 'x' THEN 'cancelled' ELSE 'completed' END,
    j.kind, j.phase, j.correlation, j.args,
    CASE WHEN substr(g.value, 45, 1) = 'r' THEN json(substr(g.value, 46)) END,
    CASE WHEN substr(g.value, 45, 1) IN ('f', 'x') THEN substr(g.value, 46) -> 0 END,
    CASE WHEN substr(g.value, 45, 1) IN ('f', 'x') THEN substr(g.value, 46) ->> 1 END,
    :instance, NULLIF(CAST(substr(g.value, 20, 5) AS INTEGER), -1), NULLIF(CAST(substr(g.value, 25, 10) AS INTEGER), -1),
    NULLIF(CAST(substr(g.value, 35, 10) AS INTEGER), -1)
FROM g
CROSS JOIN windlass_job AS j ON j.id = g.key
WHERE j.token = CAST(substr(g.value, 1, 19) AS INTEGER)
    AND j.flags & :aside = 0;
SELECT changes();

-- name: record.plain_gone
-- Removes the jobs that `record.plain` has just copied: they have the highest rowids there are, in one run. Found once, and not
-- three times.
DELETE FROM windlass_job
WHERE id IN (
        SELECT d.id
        FROM windlass_job_done AS d
        WHERE d.rowid > last_insert_rowid() - changes()
    );

-- name: record.plain_finished
-- The same where not all were copied: returns which. It may be none, and then the last row was inserted into another table.
DELETE FROM windlass_job
WHERE id IN (
        SELECT d.id
        FROM windlass_job_done AS d
        WHERE d.rowid > last_insert_rowid() - changes()
            AND d.rowid <= last_insert_rowid()
    )
RETURNING id;

-- name: record.plain_counted
-- Counts what was just removed, perhaps nothing.
INSERT INTO windlass_delta (phase, processing, completed, failed, cancelled)
SELECT d.phase, -count(*), sum(d.state = 'completed'), sum(d.state = 'failed'), sum(d.state = 'cancelled')
FROM windlass_job_done AS d
WHERE d.rowid > last_insert_rowid() - changes()
    AND d.rowid <= last_insert_rowid()
GROUP BY d.phase;

-- name: record.resolve
-- What became of attempts that a step did not finish: still held (its end needs the long way), recorded before, or lost.
SELECT g.value ->> '$.id' AS id, g.value ->> '$.token' AS token,
    CASE
        WHEN EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = g.value ->> '$.id' AND j.token = g.value ->> '$.token') THEN 'held'
        WHEN EXISTS (SELECT 1 FROM windlass_job_done AS d WHERE d.id = g.value ->> '$.id' AND d.token = g.value ->> '$.token') THEN 'already'
        WHEN EXISTS (SELECT 1 FROM windlass_attempt AS a WHERE a.job = g.value ->> '$.id' AND a.token = g.value ->> '$.token' AND a.outcome <> 'recovered') THEN 'already'
        ELSE 'lost'
    END AS standing
FROM json_each(:leases) AS g;

-- name: record.lock
-- What a fence must know of held jobs: flags, whether a cancel was asked for, and why.
SELECT j.id, j.token, j.flags, j.cancel_at IS NOT NULL AS cancel_asked, j.cancel_reason
FROM {{given_jobs(:leases)}}
WHERE j.token = g.value ->> '$.token'
ORDER BY j.id;

-- name: record.finish
-- Ends held jobs with any flags, with outputs and progress folded into history. The caller tidies the side tables.
-- An end decided by recovery is written under the negative token, or the old holder would take it for its own. The
-- instance is the one that claimed the job, not the one that recovers it.
INSERT INTO windlass_job_done (id, created_at, finished_at, claimed_at, started_at, token, lane, generation, attempt, crashes,
    max_attempts, flags, state, kind, phase, correlation, args, result, error, traceback, instance, processor, waited_ms, ran_ms,
    outputs, progress{{history.names}})
SELECT j.id, j.created_at, :now, j.claimed_at, j.started_at,
    CASE WHEN g.value ->> '$.recovered' THEN -j.token ELSE j.token END, j.lane, j.generation, j.attempt,
    j.crashes + COALESCE(g.value ->> '$.crashed', 0), j.max_attempts,
    j.flags, g.value ->> '$.state', j.kind, j.phase, j.correlation, j.args, g.value -> '$.result', g.value -> '$.error',
    g.value ->> '$.traceback', h.instance, g.value ->> '$.p', g.value ->> '$.w', g.value ->> '$.r',
    {{outputs_of(j)}}, {{progress_of(j)}}{{history.values(j)}}
FROM {{given_jobs(:outcomes)}}
LEFT JOIN windlass_claim AS h ON h.token = j.token
WHERE j.token = g.value ->> '$.token';
INSERT INTO windlass_delta (phase, processing, completed, failed, cancelled)
SELECT j.phase, -count(*), sum(g.value ->> '$.state' = 'completed'), sum(g.value ->> '$.state' = 'failed'),
    sum(g.value ->> '$.state' = 'cancelled')
FROM {{given_jobs(:outcomes)}}
WHERE j.token = g.value ->> '$.token'
GROUP BY j.phase;
DELETE FROM windlass_job
WHERE rowid IN (
        SELECT j.rowid
        FROM {{given_jobs(:outcomes)}}
        WHERE j.token = g.value ->> '$.token'
    )
RETURNING id, token;

-- name: record.tidy
-- Removes what an ended job no longer needs beside its history: outputs and checkpoint (folded into it), live keys.
DELETE FROM windlass_output
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
DELETE FROM windlass_checkpoint
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
{{tidied}}

-- name: record.retry
-- Moves held jobs to a later run and keeps what went wrong. A job that crashed its process becomes a suspect.
-- A job that was put off before it had begun (`begun` is 0) still has not begun, and leaves a trace only if it has an error.
INSERT INTO windlass_job_later (id, created_at, run_at, started_at, lane, generation, attempt, crashes, max_attempts, flags,
    reason, kind, phase, correlation, args)
SELECT j.id, j.created_at, CAST(:now + (g.value ->> '$.delay') * 1000000 AS INTEGER),
    CASE g.value ->> '$.begun' WHEN 1 THEN COALESCE(j.started_at, j.claimed_at) ELSE j.started_at END, j.lane,
    j.generation, j.attempt - (g.value ->> '$.returned'), j.crashes + (g.value ->> '$.crashed'), j.max_attempts,
    (j.flags & ~({STARTED} | {UNBEGUN} * (g.value ->> '$.begun'))) | (g.value ->> '$.crashed'), 'retry', j.kind, j.phase, j.correlation, j.args
FROM {{given_jobs(:outcomes)}}
WHERE j.token = g.value ->> '$.token';
INSERT INTO windlass_attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase, error, traceback,
    instance, processor, waited_ms, ran_ms)
SELECT j.id, j.token, j.claimed_at, :now, j.generation, j.attempt, g.value ->> '$.outcome', j.phase, g.value -> '$.error',
    g.value ->> '$.traceback', h.instance, g.value ->> '$.p', g.value ->> '$.w', g.value ->> '$.r'
FROM {{given_jobs(:outcomes)}}
LEFT JOIN windlass_claim AS h ON h.token = j.token
WHERE j.token = g.value ->> '$.token'
    AND g.value ->> '$.error' IS NOT NULL;
INSERT INTO windlass_delta (phase, processing, scheduled)
SELECT j.phase, -count(*), count(*)
FROM {{given_jobs(:outcomes)}}
WHERE j.token = g.value ->> '$.token'
GROUP BY j.phase;
DELETE FROM windlass_job
WHERE rowid IN (
        SELECT j.rowid
        FROM {{given_jobs(:outcomes)}}
        WHERE j.token = g.value ->> '$.token'
    )
RETURNING id, token;

-- name: record.advance
-- Moves held jobs to the next phase's queue with a fresh budget; their outputs were stored by output.put before, in the
-- same transaction. A checkpoint belongs to the phase that wrote it and goes.
INSERT INTO windlass_attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase,
    instance, processor, waited_ms, ran_ms)
SELECT j.id, j.token, j.claimed_at, :now, j.generation, j.attempt, g.value ->> '$.outcome', j.phase,
    h.instance, g.value ->> '$.p', g.value ->> '$.w', g.value ->> '$.r'
FROM {{given_jobs(:outcomes)}}
LEFT JOIN windlass_claim AS h ON h.token = j.token
WHERE j.token = g.value ->> '$.token';
DELETE FROM windlass_checkpoint
WHERE job IN (
        SELECT j.id
        FROM {{given_jobs(:outcomes)}}
        WHERE j.token = g.value ->> '$.token'
    );
INSERT INTO windlass_delta (phase, queued, processing)
SELECT j.phase, 0, -count(*)
FROM {{given_jobs(:outcomes)}}
WHERE j.token = g.value ->> '$.token'
GROUP BY j.phase
UNION ALL
SELECT g.value ->> '$.phase', count(*), 0
FROM {{given_jobs(:outcomes)}}
WHERE j.token = g.value ->> '$.token'
GROUP BY g.value ->> '$.phase';
UPDATE windlass_job
SET phase = g.value ->> '$.phase',
    max_attempts = g.value ->> '$.max_attempts',
    ready_at = :now,
    started_at = COALESCE(started_at, claimed_at),
    token = NULL,
    claimed_at = NULL,
    attempt = 0,
    crashes = 0,
    risen = NULL,
    flags = (flags & ~({SUSPECT} | {STARTED} | {CHECKPOINT} | {RECOVERED} | {UNBEGUN})) | {OUTPUT}
FROM json_each(:outcomes) AS g
WHERE windlass_job.id = g.value ->> '$.id'
    AND windlass_job.token = g.value ->> '$.token'
RETURNING id, NULL AS token;

-- name: record.release
-- Gives held jobs back to their queue at their old place (ready_at stays). `returned` gives the attempt back, `marks` are flags to
-- set; a release that spent its attempt, or has an error, leaves a trace.
INSERT INTO windlass_attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase, error,
    instance, processor, waited_ms, ran_ms)
SELECT j.id, j.token, j.claimed_at, :now, j.generation, j.attempt, g.value ->> '$.outcome', j.phase, g.value -> '$.error',
    h.instance, g.value ->> '$.p', g.value ->> '$.w', g.value ->> '$.r'
FROM {{given_jobs(:outcomes)}}
LEFT JOIN windlass_claim AS h ON h.token = j.token
WHERE j.token = g.value ->> '$.token'
    AND (
        g.value ->> '$.returned' = 0
        OR g.value ->> '$.error' IS NOT NULL
    );
INSERT INTO windlass_delta (phase, queued, processing)
SELECT j.phase, count(*), -count(*)
FROM {{given_jobs(:outcomes)}}
WHERE j.token = g.value ->> '$.token'
GROUP BY j.phase;
UPDATE windlass_job
SET token = NULL,
    claimed_at = NULL,
    started_at = CASE WHEN g.value ->> '$.returned' = 1 AND g.value ->> '$.error' IS NULL THEN started_at ELSE COALESCE(started_at, claimed_at) END,
    attempt = attempt - (g.value ->> '$.returned'),
    flags = (flags & ~{STARTED}) | (g.value ->> '$.marks')
FROM json_each(:outcomes) AS g
WHERE windlass_job.id = g.value ->> '$.id'
    AND windlass_job.token = g.value ->> '$.token'
RETURNING id, NULL AS token;

-- name: fence
-- Takes the write lock before anything is read: a transaction that has read cannot write once another connection has.
UPDATE windlass_job
SET token = token
WHERE FALSE; -- belt: the lock is all that is wanted

-- name: start
-- Notes durably that held jobs are being run now; asked for where a crash must be counted exactly, and where features allowed the start.
UPDATE windlass_job
SET flags = (flags | {STARTED}) & ~{UNBEGUN}
FROM json_each(:leases) AS g
WHERE windlass_job.id = g.value ->> '$.id'
    AND windlass_job.token = g.value ->> '$.token'
RETURNING id, windlass_job.token;

-- name: checkpoint
-- Saves position and progress of a held job. Progress never goes back, and with :step = 1 it must go on; but a new attempt may begin
-- again, unless a place (:place = 1) was saved before: a place has the token 0 and keeps it. Returns the row's flags, whether a cancel
-- was asked for, and whether it was saved; no row means the lease is lost.
INSERT INTO windlass_checkpoint AS p (job, generation, token, done, total, at, position)
SELECT j.id, j.generation, CASE :place WHEN 0 THEN j.token ELSE 0 END, :done, :total, :now, :position
FROM windlass_job AS j
WHERE j.id = :id
    AND j.token = :token
ON CONFLICT (job) DO UPDATE
SET generation = excluded.generation,
    token = CASE p.token WHEN 0 THEN 0 ELSE excluded.token END,
    done = excluded.done,
    total = excluded.total,
    at = excluded.at,
    position = excluded.position
WHERE excluded.done >= p.done + :step
    OR p.token NOT IN (0, :token);
SELECT j.flags, j.cancel_at IS NOT NULL AS cancel_asked, changes() > 0 AS saved
FROM windlass_job AS j
WHERE j.id = :id
    AND j.token = :token;

-- name: cancel.live
-- Notes on a held job that it should stop; returns token and flags of a queued or processing job.
UPDATE windlass_job
SET cancel_at = COALESCE(cancel_at, :now),
    cancel_reason = COALESCE(cancel_reason, :reason)
WHERE id = :id
    AND token IS NOT NULL;
SELECT j.token, j.flags, NULL
FROM windlass_job AS j
WHERE j.id = :id;

-- name: cancel.queued
-- Ends a queued job.
{{cancelled(j, {{cancel_error(j)}})}}
FROM windlass_job AS j
WHERE j.id = :id
    AND j.token IS NULL;
INSERT INTO windlass_delta (phase, queued, cancelled)
SELECT j.phase, -1, 1
FROM windlass_job AS j
WHERE j.id = :id
    AND j.token IS NULL;
DELETE FROM windlass_job
WHERE id = :id
    AND token IS NULL
RETURNING id, flags;

-- name: cancel.later
-- Ends jobs that wait for one of these reasons. One that ends because of a parent names the first that did not complete; its edge was marked
-- before, in the same transaction.
{{cancelled(l, json_patch({{cancel_error(l)}}, COALESCE({{cancel_details(l)}} '{}', '{}')))}}
FROM windlass_job_later AS l
WHERE l.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND l.reason IN (SELECT r.value FROM json_each(:reasons) AS r);
INSERT INTO windlass_delta (phase, waiting, scheduled, queued, cancelled)
SELECT l.phase, -sum(l.reason IN ('waiting', 'unlinked', 'limited', 'paced')), -sum(l.reason IN ('scheduled', 'retry')), -sum(l.reason = 'inbox'), count(*)
FROM windlass_job_later AS l
WHERE l.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND l.reason IN (SELECT r.value FROM json_each(:reasons) AS r)
GROUP BY l.phase;
DELETE FROM windlass_job_later
WHERE id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND reason IN (SELECT r.value FROM json_each(:reasons) AS r)
RETURNING id, flags;

-- name: retry.take
-- Brings an ended job back into its queue as a new generation. The attempt that had ended it joins the others; outputs of
-- the phases before stay, and of a failed or cancelled job the checkpoint and the named outputs of its phase too, so that it goes on where it
-- was. The output without a name goes: it would say that the phase is done.
INSERT INTO windlass_job (id, created_at, ready_at, lane, generation, max_attempts, flags, kind, phase, correlation, args)
SELECT d.id, d.created_at, :now, d.lane, d.generation + 1, d.max_attempts,
    (d.flags & {SURVIVES})
        {{new_flags(d.kind)}}
        {{revived_flags(d)}}
        | CASE WHEN EXISTS (
            SELECT 1 FROM json_each(d.outputs) AS o
            WHERE (o.value ->> '$.phase' <> d.phase OR (o.value ->> '$.name' <> '' AND d.state <> 'completed'))
        ) THEN {OUTPUT} ELSE 0 END
        | CASE WHEN d.progress IS NOT NULL AND d.state <> 'completed' THEN {CHECKPOINT} ELSE 0 END,
    d.kind, d.phase, d.correlation, d.args
FROM windlass_job_done AS d
WHERE d.id = :id;
INSERT INTO windlass_attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase, error, traceback,
    instance, processor, waited_ms, ran_ms)
SELECT d.id, d.token, d.claimed_at, d.finished_at, d.generation, d.attempt, d.state, d.phase, d.error, d.traceback,
    d.instance, d.processor, d.waited_ms, d.ran_ms
FROM windlass_job_done AS d
WHERE d.id = :id
    AND d.token IS NOT NULL;
INSERT INTO windlass_output (job, generation, phase, name, at, value)
SELECT d.id, d.generation + 1, o.value ->> '$.phase', o.value ->> '$.name', :now, o.value -> '$.value'
FROM windlass_job_done AS d
CROSS JOIN json_each(d.outputs) AS o
WHERE d.id = :id
    AND (o.value ->> '$.phase' <> d.phase OR (o.value ->> '$.name' <> '' AND d.state <> 'completed'));
INSERT INTO windlass_checkpoint (job, generation, token, done, total, at, position)
SELECT d.id, d.generation + 1, COALESCE(d.progress ->> '$.token', 0), d.progress ->> '$.done', d.progress ->> '$.total', :now, d.progress -> '$.position'
FROM windlass_job_done AS d
WHERE d.id = :id
    AND d.progress IS NOT NULL
    AND d.state <> 'completed';
{{retried}}
INSERT INTO windlass_delta (phase, queued, completed, failed, cancelled)
SELECT d.phase, 1, -(d.state = 'completed'), -(d.state = 'failed'), -(d.state = 'cancelled')
FROM windlass_job_done AS d
WHERE d.id = :id;
DELETE FROM windlass_job_done
WHERE id = :id
RETURNING id, kind, phase, flags, args, key;

-- name: get
-- One job, wherever it is, with the progress and outputs it has now; of one that waits, the outcome of its last attempt.
SELECT j.id, j.kind, j.phase, j.state, j.lane, j.generation, j.attempt, j.crashes, j.max_attempts, j.args, j.correlation,
    j.created_at,
    max(
        j.updated_at, COALESCE(p.at, 0), COALESCE(a.ended_at, 0),
        CASE WHEN j.reason IN ('limited', 'paced', 'waiting') THEN min(j.run_at, :now) ELSE 0 END
    ) AS updated_at,
    j.run_at, j.started_at, j.claimed_at, j.finished_at, j.cancel_at,
    COALESCE(j.reason, (
        SELECT 'paused'
        FROM windlass_phase AS w
        WHERE w.name = j.phase
            AND j.state = 'queued'
            AND {{lasts(w, :now)}}
    )) AS reason,
    j.pending, j.result, COALESCE(j.error, a.error) AS error, COALESCE(j.traceback, a.traceback) AS traceback,
    COALESCE(j.outputs, {{outputs_of(j)}}) AS outputs,
    COALESCE(j.progress, CASE WHEN p.job IS NOT NULL THEN {{as_progress(p)}} END) AS progress,
    COALESCE(j.finished_at, a.ended_at) AS error_at, p.at AS saved_at{{view.columns(j)}}
FROM windlass_jobs AS j
LEFT JOIN windlass_checkpoint AS p ON p.job = j.id
LEFT JOIN windlass_attempt AS a ON j.reason IS NOT NULL AND {{is_last_attempt(a, j)}}
WHERE j.id = :id;

-- name: claim.one
-- Claims one job by its id, if it is queued, its phase is not paused, and this instance is not dead. Returns it as `claim` does. A
-- correlation id that is given becomes the job's. Each statement acts only if the one before it did (changes()): there is no
-- data-modifying CTE here.
INSERT INTO windlass_claim (instance, at, phase)
SELECT :instance, :now, j.phase
FROM windlass_job AS j
WHERE j.id = :id
    AND j.token IS NULL
    AND {{is_alive(:instance)}}
    AND NOT {{is_paused(j.phase, :now)}};
INSERT INTO windlass_delta (phase, queued, processing)
SELECT j.phase, -1, 1
FROM windlass_job AS j
WHERE j.id = :id
    AND changes() = 1;
UPDATE windlass_job
SET token = (SELECT max(c.token) FROM windlass_claim AS c),
    claimed_at = :now,
    attempt = attempt + 1,
    flags = flags | {STARTED},
    correlation = COALESCE(:correlation, correlation)
WHERE id = :id
    AND changes() = 1
RETURNING id, token, kind, phase, lane, generation, attempt, max_attempts, crashes, flags, args, correlation, created_at,
    ready_at, claimed_at;

-- fragment: given_jobs(list)
-- The jobs that a JSON array names by their ids; the one that holds a job has to prove it by its token.
json_each({list}) AS g
CROSS JOIN windlass_job AS j ON j.id = g.value ->> '$.id'

-- fragment: queued_flags(row)
-- The flags of a job that comes into its queue. No enqueue is open while a rule is defined, and the jobs that wait are flagged by the scan
-- that follows (rule.flag_later), so nothing has to be added here.
{row}.flags

-- fragment: cancel_error(job)
-- The error of a cancelled job.
json_set(:error, '$.phase', {job}.phase, '$.attempt', {job}.attempt, '$.correlation_id', COALESCE({job}.correlation, {job}.id))

-- fragment: outputs_of(job)
-- The outputs of a job in the order they were stored, NULL if it has none. Those of earlier generations left with their end.
(
    SELECT CASE WHEN count(*) > 0 THEN json_group_array(json_object('phase', o.phase, 'name', o.name, 'value', json(o.value))) END
    FROM (SELECT * FROM windlass_output AS u WHERE u.job = {job}.id ORDER BY u.at, u.phase, u.name) AS o
)

-- fragment: as_progress(checkpoint)
-- A checkpoint as JSON.
json_object('done', {checkpoint}.done, 'total', {checkpoint}.total, 'position', json({checkpoint}.position), 'token', {checkpoint}.token)

-- fragment: is_last_attempt(attempt, job)
-- The attempt is the last one that a waiting job made in its phase: what to join it on.
{attempt}.job = {job}.id
AND {attempt}.token = (
    SELECT t.token
    FROM windlass_attempt AS t
    WHERE t.job = {job}.id
        AND t.generation = {job}.generation
        AND t.phase = {job}.phase -- belt: the attempt that left another phase has no error, and ended when the job came here
    ORDER BY abs(t.token) DESC
    LIMIT 1
)
