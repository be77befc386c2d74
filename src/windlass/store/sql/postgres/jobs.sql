-- Verbs of a job's life on PostgreSQL.
--
-- LOCK ORDER, kept by every transaction: job by id, job_later by id, job_dep, rules, fan_in by (rule, key), then the rest, and gate by (phase, key)
-- last. A verb that locks many rows of
-- `job` and is not their holder uses SKIP LOCKED, so that none waits for a holder's effect transaction and no cycle
-- can form. Every write of a holder names (id, token): a holder whose lease ended changes nothing.
-- PLANS DEPEND ON NO STATISTICS. A session plans each statement once, perhaps while the tables are empty, and keeps that plan while they grow
-- (tests/plans/test_stale_plans.py). Whole tables are never scanned (enable_seqscan is off in the store's own sessions); what else has to
-- be kept from a plan that seems cheap beside nothing:
--   rows of a table that are read for rows of another: LATERAL (… LIMIT 1), (… OFFSET 0) or (… FOR UPDATE), which stay on the inner side
--   rows that are updated or deleted: id = ANY(ARRAY[g.id]), an index condition that can be neither hashed nor merged; or ctid, where
--     the row is locked or no other session changes it
--   (a, b) >= (x, y) … ORDER BY a, b LIMIT 1: found through the index of both, not through that of one
--   EXISTS (… OFFSET 0): read row by row, not hashed
--   column || '' = …: no condition for an index, also not for a partial one's
-- Parameters are :names; the loader turns them into the driver's form. Guards are one to a line (./dev mutate-sql).

-- The enqueue verbs also run on callers' own connections, whose drivers make objects of uuids: they return ids as text.

-- name: enqueue
-- Inserts jobs and their counts, and notifies waiting instances. Locks and updates nothing: it may run inside a
-- caller's transaction that stays open for long. Rows with `inbox` wait for the promoter, which gives them a ready_at
-- of after their commit. A job whose kind is some rule's parent is flagged. Returns the phases that were notified.
WITH given AS MATERIALIZED (
    SELECT g.*,
        CASE
            WHEN g.pending > 0 THEN 'unlinked'
            WHEN g.due > g.moment THEN 'scheduled'
            WHEN g.flags & {LIMIT} <> 0 THEN 'limited'
            WHEN g.inbox THEN 'inbox'
            ELSE 'job'
        END AS place,
        0 {{new_flags(g.kind)}} AS added
    FROM (
        SELECT r.*,
            COALESCE(r.run_at, r.moment + r.delay * interval '1 second') AS due
        FROM (
            SELECT j.*, {{now}} AS moment
            FROM json_to_recordset(:jobs::json) AS j (
                id uuid, kind text, phase text, lane smallint, max_attempts smallint, flags smallint, correlation text,
                args jsonb, delay double precision, run_at timestamptz, pending integer, inbox boolean, notify boolean
            )
        ) AS r
    ) AS g
), live AS (
    INSERT INTO windlass.job (id, created_at, ready_at, lane, max_attempts, flags, kind, phase, correlation, args)
    SELECT g.id, g.moment, g.moment, g.lane, g.max_attempts, g.flags | g.added, g.kind, g.phase, g.correlation, g.args
    FROM given AS g
    WHERE g.place = 'job'
), later AS (
    INSERT INTO windlass.job_later
        (id, created_at, run_at, pending, lane, max_attempts, flags, reason, kind, phase, correlation, args)
    SELECT g.id, g.moment, COALESCE(g.due, g.moment), g.pending, g.lane, g.max_attempts, g.flags | g.added, g.place, g.kind, g.phase,
        g.correlation, g.args
    FROM given AS g
    WHERE g.place <> 'job'
), counted AS (
    INSERT INTO windlass.delta (phase, waiting, scheduled, queued)
    SELECT g.phase,
        count(*) FILTER (WHERE g.place IN ('unlinked', 'limited')),
        count(*) FILTER (WHERE g.place = 'scheduled'),
        count(*) FILTER (WHERE g.place IN ('job', 'inbox'))
    FROM given AS g
    GROUP BY g.phase
)
{{notified(SELECT CASE WHEN g.place = 'job' THEN g.phase ELSE '@later' END FROM given AS g WHERE g.notify)}};

-- name: enqueue.one
-- The verb `enqueue` for one job that is ready now and has no feature, which costs half of it: nothing is read from JSON. Returns the
-- phase if it was notified.
WITH given AS MATERIALIZED (
    SELECT {{now}} AS moment, :kind::text AS kind, :phase::text AS phase
), live AS (
    INSERT INTO windlass.job (id, created_at, ready_at, lane, max_attempts, flags, kind, phase, correlation, args)
    SELECT :id::uuid, g.moment, g.moment, :lane::smallint, :max_attempts::smallint, 0 {{new_flags(g.kind)}},
        g.kind, g.phase, :correlation::text, :args::jsonb
    FROM given AS g
), counted AS (
    INSERT INTO windlass.delta (phase, queued)
    SELECT g.phase, 1
    FROM given AS g
)
{{notified(SELECT g.phase FROM given AS g WHERE :notify::boolean)}};

-- name: enqueue.copy
-- The columns a bulk enqueue streams; both times are the defaults, each row's own moment.
COPY windlass.job (id, lane, max_attempts, flags, kind, phase, correlation, args) FROM STDIN;

-- name: enqueue.copy_at
-- The same with times given, for a clock that a test holds.
COPY windlass.job (id, lane, max_attempts, flags, kind, phase, correlation, args, created_at, ready_at) FROM STDIN;

-- name: enqueue.copied
-- Counts jobs that were streamed and notifies waiting instances. Returns the phases that were notified.
WITH given AS MATERIALIZED (
    SELECT g.phase, g.n, g.notify
    FROM json_to_recordset(:phases::json) AS g (phase text, n integer, notify boolean)
), counted AS (
    INSERT INTO windlass.delta (phase, queued)
    SELECT g.phase, g.n
    FROM given AS g
)
{{notified(SELECT g.phase FROM given AS g WHERE g.notify)}};

-- name: enqueue.lock
-- Makes enqueues that name the same ids take turns until their transactions end. Up to 64 ids are locked one by one. Beyond that 64 locks
-- stand for all ids there are: the server has room for some thousand locks of all its sessions together. A call that locks single ids
-- shares the locks that stand for them, so that the two kinds exclude each other. Always in the same order, so that no cycle can form.
WITH given AS MATERIALIZED (
    SELECT hashtextextended(g.id, 0) AS hash
    FROM unnest(:ids::text[]) AS g (id)
), standing AS MATERIALIZED (
    SELECT DISTINCT (g.hash & 63)::integer AS n
    FROM given AS g
    ORDER BY 1
)
SELECT CASE
        WHEN cardinality(:ids::text[]) > 64 THEN pg_advisory_xact_lock(1465282, s.n)::text
        ELSE pg_advisory_xact_lock_shared(1465282, s.n)::text
    END
FROM standing AS s
UNION ALL
SELECT pg_advisory_xact_lock(g.hash)::text
FROM given AS g
WHERE cardinality(:ids::text[]) <= 64;

-- name: enqueue.parents
-- Which of these jobs exist, their correlation ids, and their flags.
SELECT j.id::text, j.correlation, j.flags
FROM windlass.jobs AS j
WHERE j.id = ANY(:ids::uuid[]);

-- name: enqueue.present
-- Which of these ids exist, and in how many tables; more than one means a repeated enqueue raced its first self.
SELECT id::text, count(*)
FROM windlass.jobs
WHERE id = ANY(:ids::uuid[])
GROUP BY id;

-- name: step
-- Records plain outcomes and claims the next batch of each of some phases: one statement, one commit. A row is finished only by
-- the holder of its token and only while its end touches no other table (flags); at most as many rows of a phase as were asked for are
-- claimed under every plan, because they are picked and locked in a materialised CTE, highest lane first, oldest first, from the
-- low-water mark of each lane on, and without suspects where the claimant has enough of them. Each phase has a claim row, and so a token,
-- of its own. :marks has ten for each phase, one for each lane. Returns one row about the finished ones,
-- then the claimed ones. Times and counts that other software wrote
-- are bounded: one that the driver cannot read, or that does not fit, would fail every claim of its phase, after its commit.
-- Outcomes come as columns, which are read in half the time of JSON; those that no outcome has anything in are left empty.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), given AS MATERIALIZED (
    SELECT g.id, g.token, COALESCE(g.state, 'completed') AS state, g.result::jsonb, g.error::jsonb, g.traceback, g.p, g.w, g.r
    FROM unnest(
            :ids::uuid[], :tokens::bigint[], :processors::smallint[], :waited::integer[], :ran::integer[],
            :states::text[], :results::text[], :errors::text[], :tracebacks::text[]
        ) AS g (id, token, p, w, r, state, result, error, traceback)
), finished AS (
    DELETE FROM windlass.job AS j
    USING given AS g
    WHERE j.id = ANY(ARRAY[g.id])
        AND j.token = g.token
        AND j.flags & :aside::smallint = 0
    RETURNING j.id, j.created_at, j.claimed_at, j.started_at, j.token, j.lane, j.generation, j.attempt, j.crashes,
        j.max_attempts, j.flags, j.kind, j.phase, j.correlation, j.args, g.state, g.result, g.error, g.traceback, g.p, g.w, g.r
), history AS (
    INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, started_at, token, lane, generation, attempt,
        crashes, max_attempts, flags, state, kind, phase, correlation, args, result, error, traceback,
        instance, processor, waited_ms, ran_ms)
    SELECT f.id, f.created_at, c.at, f.claimed_at, f.started_at, f.token, f.lane, f.generation, f.attempt,
        f.crashes, f.max_attempts, f.flags, f.state, f.kind, f.phase, f.correlation, f.args, f.result, f.error, f.traceback,
        :instance::uuid, f.p, f.w, f.r
    FROM finished AS f
    CROSS JOIN clock AS c
), emptied AS (
    DELETE FROM windlass.claim AS c
    WHERE c.token = ANY(:emptied::bigint[])
        AND c.instance = :instance::uuid
), wanted AS MATERIALIZED (
    SELECT w.phase, w.most, w.starting, w.suspects, w.n,
        CASE WHEN w.quiet > 0 THEN c.at - w.quiet * interval '1 second' ELSE 'infinity' END AS upto
    FROM unnest(:phases::text[], :limits::integer[], :startings::integer[], :suspects::boolean[], :quiets::double precision[])
        WITH ORDINALITY AS w (phase, most, starting, suspects, quiet, n)
    CROSS JOIN clock AS c
    WHERE NOT {{is_paused(w.phase, c.at)}}
        AND {{is_alive(:instance::uuid)}}
), picked AS MATERIALIZED (
    SELECT w.phase, r.tid, r.lane, r.ready_at, r.place > w.starting AS is_ahead
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT q.tid, q.lane, q.ready_at, row_number() OVER () AS place
        FROM (
            SELECT ready.tid, ready.lane, ready.ready_at
            FROM generate_series(0, 9) AS l (lane)
            CROSS JOIN LATERAL (
                SELECT j.ctid AS tid, j.lane, j.ready_at
                FROM windlass.job AS j
                WHERE j.phase = w.phase
                    AND j.lane = l.lane
                    AND j.ready_at >= (:marks::timestamptz[])[w.n * 10 - 9 + l.lane]
                    AND j.ready_at <= w.upto
                    AND j.token IS NULL
                    AND (w.suspects OR j.flags & {SUSPECT} = 0)
                ORDER BY j.ready_at, j.id
                LIMIT w.most -- belt: the outer one decides; this one bounds what a plan that reads ahead may lock
                FOR UPDATE SKIP LOCKED
            ) AS ready
            LIMIT w.most
        ) AS q
    ) AS r
), held AS (
    INSERT INTO windlass.claim (instance, at, lanes, los, his, phase)
    SELECT :instance::uuid, c.at, array_agg(r.lane), array_agg(r.lo), array_agg(r.hi), r.phase
    FROM (SELECT p.phase, p.lane, min(p.ready_at) AS lo, max(p.ready_at) AS hi FROM picked AS p GROUP BY p.phase, p.lane) AS r
    CROSS JOIN clock AS c
    GROUP BY r.phase, c.at
    RETURNING token, phase
), claimed AS (
    UPDATE windlass.job AS j
    SET token = (SELECT h.token FROM held AS h WHERE h.phase = j.phase),
        claimed_at = (SELECT at FROM clock),
        attempt = LEAST(j.attempt + 1, 32767),
        flags = CASE WHEN j.flags & {EXACT} <> 0 OR j.ctid IN (SELECT p.tid FROM picked AS p WHERE p.is_ahead) THEN j.flags & ~{STARTED} ELSE j.flags | {STARTED} END
    WHERE j.ctid = ANY(ARRAY(SELECT tid FROM picked))
        AND j.token IS NULL -- belt: picked is locked and materialised, so no plan can reach another row
    RETURNING j.id, j.token, j.kind, j.phase, j.lane, j.generation, j.attempt, j.max_attempts, j.crashes, j.flags, j.args,
        j.correlation, GREATEST(LEAST(j.created_at, '9999-01-01'), '0002-01-01') AS created_at,
        GREATEST(LEAST(j.ready_at, '9999-01-01'), '0002-01-01') AS ready_at, j.claimed_at
), counted AS (
    INSERT INTO windlass.delta (phase, queued, processing, completed, failed, cancelled)
    SELECT f.phase, 0, -count(*),
        count(*) FILTER (WHERE f.state = 'completed'),
        count(*) FILTER (WHERE f.state = 'failed'),
        count(*) FILTER (WHERE f.state = 'cancelled')
    FROM finished AS f
    GROUP BY f.phase
    UNION ALL
    SELECT c.phase, -count(*), count(*), 0, 0, 0
    FROM claimed AS c
    GROUP BY c.phase
)
SELECT CASE WHEN count(*) < :expected THEN (SELECT COALESCE(string_agg(f.id::text, ','), '') FROM finished AS f) END AS finished,
    NULL AS id, NULL::bigint AS token, NULL::text AS kind, NULL::text AS phase, NULL::smallint AS lane,
    NULL::smallint AS generation, NULL::smallint AS attempt, NULL::smallint AS max_attempts, NULL::smallint AS crashes,
    NULL::smallint AS flags, NULL AS args, NULL::text AS correlation, NULL::timestamptz AS created_at,
    NULL::timestamptz AS ready_at, NULL::timestamptz AS claimed_at
FROM finished AS f
UNION ALL
SELECT NULL, c.id::text, c.token, c.kind, c.phase, c.lane, c.generation, c.attempt, c.max_attempts, c.crashes, c.flags, c.args::text,
    c.correlation, c.created_at, c.ready_at, c.claimed_at
FROM claimed AS c;

-- name: ready.phases
-- Which of these phases a claim would find a job in, from the low-water mark of each lane on: one read for all of them, so
-- that an idle instance pays for one statement and locks nothing.
SELECT DISTINCT l.phase
FROM unnest(:phases::text[], :lanes::smallint[], :marks::timestamptz[]) AS l (phase, lane, mark)
CROSS JOIN LATERAL (
    SELECT
    FROM windlass.job AS j
    WHERE j.phase = l.phase
        AND j.lane = l.lane
        AND j.ready_at >= l.mark
        AND j.token IS NULL
    ORDER BY j.ready_at, j.id
    LIMIT 1
) AS ready
WHERE NOT {{is_paused(l.phase, {{now_once}})}};

-- name: record.resolve
-- What became of attempts that a step did not finish: still held (its end needs the long way), recorded before, or lost.
SELECT g.id, g.token,
    CASE
        WHEN EXISTS (SELECT FROM windlass.job AS j WHERE j.id = g.id AND j.token = g.token OFFSET 0) THEN 'held'
        WHEN EXISTS (SELECT FROM windlass.job_done AS d WHERE d.id = g.id AND d.token = g.token OFFSET 0) THEN 'already'
        WHEN EXISTS (SELECT FROM windlass.attempt AS a WHERE a.job = g.id AND a.token = g.token AND a.outcome <> 'recovered' OFFSET 0) THEN 'already'
        ELSE 'lost'
    END AS standing
FROM json_to_recordset(:leases::json) AS g (id uuid, token bigint);

-- name: record.lock
-- Locks held jobs in id order and returns what a fence must know: flags, whether a cancel was asked for, and why.
SELECT j.id, j.token, j.flags, j.cancel_at IS NOT NULL AS cancel_asked, j.cancel_reason
FROM (
    SELECT l.id, l.token
    FROM json_to_recordset(:leases::json) AS l (id uuid, token bigint)
    ORDER BY l.id
) AS g
CROSS JOIN LATERAL (
    SELECT h.id, h.token, h.flags, h.cancel_at, h.cancel_reason
    FROM windlass.job AS h
    WHERE h.id = g.id
        AND h.token = g.token
    FOR UPDATE
) AS j;

-- name: record.finish
-- Ends held jobs with any flags, with outputs and progress folded into history. The caller tidies the side tables.
-- An end decided by recovery is written under the negative token, or the old holder would take it for its own. The
-- instance is the one that claimed the job, not the one that recovers it.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), finished AS (
    DELETE FROM windlass.job AS j
    USING json_to_recordset(:outcomes::json) AS g (
        id uuid, token bigint, state text, result jsonb, error jsonb, traceback text, recovered boolean, crashed smallint,
        p smallint, w integer, r integer
    )
    WHERE j.id = ANY(ARRAY[g.id])
        AND j.token = g.token
    RETURNING j.*, g.state, g.result, g.error, g.traceback, g.recovered, g.crashed, g.p, g.w, g.r
), history AS (
    INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, started_at, token, lane, generation, attempt,
        crashes, max_attempts, flags, state, kind, phase, correlation, args, result, error, traceback,
        instance, processor, waited_ms, ran_ms, outputs, progress{{history.names}})
    SELECT f.id, f.created_at, c.at, f.claimed_at, f.started_at, CASE WHEN f.recovered THEN -f.token ELSE f.token END,
        f.lane, f.generation, f.attempt, LEAST(f.crashes, 32766) + COALESCE(f.crashed, 0), f.max_attempts, f.flags, f.state, f.kind,
        f.phase, f.correlation, f.args, f.result, f.error, f.traceback,
        h.instance, f.p, f.w, f.r,
        {{outputs_of(f)}}, {{progress_of(f)}}{{history.values(f)}}
    FROM finished AS f
    CROSS JOIN clock AS c
    LEFT JOIN windlass.claim AS h ON h.token = ANY(ARRAY[f.token])
), counted AS (
    INSERT INTO windlass.delta (phase, processing, completed, failed, cancelled)
    SELECT f.phase, -count(*),
        count(*) FILTER (WHERE f.state = 'completed'),
        count(*) FILTER (WHERE f.state = 'failed'),
        count(*) FILTER (WHERE f.state = 'cancelled')
    FROM finished AS f
    GROUP BY f.phase
)
SELECT f.id, f.token
FROM finished AS f;

-- name: record.tidy
-- Removes what an ended job no longer needs beside its history: outputs and checkpoint (folded into it), live keys.
WITH outputs AS (
    DELETE FROM windlass.output AS o
    WHERE o.job = ANY(:ids::uuid[])
), checkpoints AS (
    DELETE FROM windlass.checkpoint AS p
    WHERE p.job = ANY(:ids::uuid[])
)
{{tidied}}
SELECT 1
WHERE FALSE; -- belt: a statement of its own, which returns nothing

-- name: record.retry
-- Moves held jobs to a later run and keeps what went wrong. A job that crashed its process becomes a suspect.
-- A job that was put off before it had begun (`begun` is 0) still has not begun, and leaves a trace only if it has an error.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), moved AS (
    DELETE FROM windlass.job AS j
    USING json_to_recordset(:outcomes::json) AS g (
        id uuid, token bigint, delay double precision, error jsonb, traceback text, crashed smallint, returned smallint, begun smallint,
        outcome text, p smallint, w integer, r integer
    )
    WHERE j.id = ANY(ARRAY[g.id])
        AND j.token = g.token
    RETURNING j.*, g.delay, g.error, g.traceback, g.crashed, g.returned, g.begun, g.outcome, g.p, g.w, g.r
), later AS (
    INSERT INTO windlass.job_later (id, created_at, run_at, started_at, lane, generation, attempt, crashes, max_attempts,
        flags, reason, kind, phase, correlation, args)
    SELECT m.id, m.created_at, c.at + m.delay * interval '1 second',
        CASE m.begun WHEN 1 THEN COALESCE(m.started_at, m.claimed_at) ELSE m.started_at END, m.lane,
        m.generation, m.attempt - m.returned, LEAST(m.crashes, 32766) + m.crashed, m.max_attempts,
        (m.flags & ~({STARTED} | {UNBEGUN} * m.begun)) | m.crashed, 'retry', m.kind, m.phase, m.correlation, m.args
    FROM moved AS m
    CROSS JOIN clock AS c
), tried AS (
    INSERT INTO windlass.attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase, error, traceback,
        instance, processor, waited_ms, ran_ms)
    SELECT m.id, m.token, m.claimed_at, c.at, m.generation, m.attempt, m.outcome, m.phase, m.error, m.traceback,
        h.instance, m.p, m.w, m.r
    FROM moved AS m
    CROSS JOIN clock AS c
    LEFT JOIN windlass.claim AS h ON h.token = ANY(ARRAY[m.token])
    WHERE m.error IS NOT NULL
), counted AS (
    INSERT INTO windlass.delta (phase, processing, scheduled)
    SELECT m.phase, -count(*), count(*)
    FROM moved AS m
    GROUP BY m.phase
)
SELECT m.id, m.token
FROM moved AS m;

-- name: record.advance
-- Moves held jobs to the next phase's queue with a fresh budget; their outputs were stored by output.put before, in the
-- same transaction. A checkpoint belongs to the phase that wrote it and goes.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), given AS MATERIALIZED (
    SELECT g.*
    FROM json_to_recordset(:outcomes::json) AS g (
        id uuid, token bigint, phase text, max_attempts smallint, outcome text, p smallint, w integer, r integer
    )
), held AS MATERIALIZED (
    SELECT j.id, j.token, j.claimed_at, j.generation, j.attempt, j.phase, g.outcome, h.instance, g.p, g.w, g.r
    FROM given AS g
    CROSS JOIN LATERAL (SELECT l.* FROM windlass.job AS l WHERE l.id = g.id LIMIT 1) AS j
    LEFT JOIN windlass.claim AS h ON h.token = ANY(ARRAY[j.token])
    WHERE j.token = g.token
), moved AS (
    UPDATE windlass.job AS j
    SET phase = g.phase,
        max_attempts = g.max_attempts,
        ready_at = c.at,
        started_at = COALESCE(j.started_at, j.claimed_at),
        token = NULL,
        claimed_at = NULL,
        attempt = 0,
        crashes = 0,
        risen = NULL,
        flags = (j.flags & ~({SUSPECT} | {STARTED} | {CHECKPOINT} | {RECOVERED} | {UNBEGUN})) | {OUTPUT}
    FROM given AS g
    CROSS JOIN clock AS c
    WHERE j.id = ANY(ARRAY[g.id])
        AND j.token = g.token
    RETURNING j.id, g.token, j.phase
), tried AS (
    INSERT INTO windlass.attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase,
        instance, processor, waited_ms, ran_ms)
    SELECT h.id, h.token, h.claimed_at, c.at, h.generation, h.attempt, h.outcome, h.phase, h.instance, h.p, h.w, h.r
    FROM held AS h
    CROSS JOIN clock AS c
), unfinished AS (
    DELETE FROM windlass.checkpoint AS p
    USING held AS h
    WHERE p.job = ANY(ARRAY[h.id])
), counted AS (
    INSERT INTO windlass.delta (phase, queued, processing)
    SELECT h.phase, 0, -count(*)
    FROM held AS h
    GROUP BY h.phase
    UNION ALL
    SELECT m.phase, count(*), 0
    FROM moved AS m
    GROUP BY m.phase
)
SELECT m.id, m.token
FROM moved AS m;

-- name: record.release
-- Gives held jobs back to their queue at their old place (ready_at stays). `returned` gives the attempt back, `marks` are flags to
-- set; a release that spent its attempt, or has an error, leaves a trace.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), given AS MATERIALIZED (
    SELECT g.*
    FROM json_to_recordset(:outcomes::json) AS g (
        id uuid, token bigint, returned smallint, marks smallint, outcome text, error jsonb,
        p smallint, w integer, r integer
    )
), held AS MATERIALIZED (
    SELECT j.id, j.token, j.claimed_at, j.generation, j.attempt, j.phase, g.returned, g.outcome, g.error, h.instance, g.p, g.w, g.r
    FROM given AS g
    CROSS JOIN LATERAL (SELECT l.* FROM windlass.job AS l WHERE l.id = g.id LIMIT 1) AS j
    LEFT JOIN windlass.claim AS h ON h.token = ANY(ARRAY[j.token])
    WHERE j.token = g.token
), moved AS (
    UPDATE windlass.job AS j
    SET token = NULL,
        claimed_at = NULL,
        started_at = CASE WHEN g.returned = 1 AND g.error IS NULL THEN j.started_at ELSE COALESCE(j.started_at, j.claimed_at) END,
        attempt = j.attempt - g.returned,
        flags = (j.flags & ~{STARTED}) | g.marks
    FROM given AS g
    WHERE j.id = ANY(ARRAY[g.id])
        AND j.token = g.token
    RETURNING j.id, g.token, j.phase
), tried AS (
    INSERT INTO windlass.attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase, error,
        instance, processor, waited_ms, ran_ms)
    SELECT h.id, h.token, h.claimed_at, c.at, h.generation, h.attempt, h.outcome, h.phase, h.error, h.instance, h.p, h.w, h.r
    FROM held AS h
    CROSS JOIN clock AS c
    WHERE h.returned = 0
        OR h.error IS NOT NULL
), counted AS (
    INSERT INTO windlass.delta (phase, queued, processing)
    SELECT m.phase, count(*), -count(*)
    FROM moved AS m
    GROUP BY m.phase
)
SELECT m.id, m.token
FROM moved AS m;

-- name: fence
-- Has the server end a caller's transaction that idles longer than this, as long as the transaction lasts; a shorter limit of
-- the caller's own stays.
SELECT set_config('idle_in_transaction_session_timeout', :milliseconds::text, TRUE)
FROM (SELECT EXTRACT(EPOCH FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000 AS own) AS s
WHERE NOT s.own BETWEEN 1 AND :milliseconds::double precision;

-- name: start
-- Notes durably that held jobs are being run now; asked for where a crash must be counted exactly, and where features allowed the start.
UPDATE windlass.job AS j
SET flags = (j.flags | {STARTED}) & ~{UNBEGUN}
FROM json_to_recordset(:leases::json) AS g (id uuid, token bigint)
WHERE j.id = ANY(ARRAY[g.id])
    AND j.token = g.token
RETURNING j.id, j.token;

-- name: checkpoint
-- Saves position and progress of a held job; the fence is the lock on its row. Progress never goes back, and with :step = 1 it
-- must go on; but a new attempt may begin again, unless a place (:place = 1) was saved before: a place has the token 0 and keeps it.
-- Returns the row's flags, whether a cancel was asked for and whether it was saved; no row means the lease is lost.
WITH held AS MATERIALIZED (
    SELECT j.id, j.generation, j.token, j.flags, j.cancel_at
    FROM windlass.job AS j
    WHERE j.id = :id::uuid
        AND j.token = :token::bigint
    FOR NO KEY UPDATE
), saved AS (
    INSERT INTO windlass.checkpoint AS p (job, generation, token, done, total, at, position)
    SELECT h.id, h.generation, CASE :place::int WHEN 0 THEN h.token ELSE 0 END, :done::bigint, :total::bigint, {{now}}, :position::jsonb
    FROM held AS h
    ON CONFLICT (job) DO UPDATE
    SET generation = excluded.generation,
        token = CASE p.token WHEN 0 THEN 0 ELSE excluded.token END,
        done = excluded.done,
        total = excluded.total,
        at = excluded.at,
        position = excluded.position
    WHERE excluded.done >= p.done + :step::bigint
        OR p.token NOT IN (0, :token::bigint)
    RETURNING p.job
)
SELECT h.flags, h.cancel_at IS NOT NULL AS cancel_asked, EXISTS (SELECT FROM saved) AS saved
FROM held AS h;

-- name: cancel.live
-- Locks a queued or processing job and, where it is held, notes that it should stop and notifies its holder. Two statements:
-- one alone would go on with the row as it was before a claim that the lock had to wait for, and the cancel would be lost.
SELECT j.id
FROM windlass.job AS j
WHERE j.id = :id::uuid
FOR UPDATE;
WITH asked AS (
    UPDATE windlass.job AS j
    SET cancel_at = COALESCE(j.cancel_at, :now::timestamptz, clock_timestamp()),
        cancel_reason = COALESCE(j.cancel_reason, :reason::text)
    WHERE j.id = :id::uuid
        AND j.token IS NOT NULL
    RETURNING j.id, j.token
)
SELECT j.token, j.flags, (SELECT pg_notify('windlass', '@cancel ' || a.id::text || ' ' || a.token::text) FROM asked AS a)::text
FROM windlass.job AS j
WHERE j.id = :id::uuid;

-- name: cancel.queued
-- Ends a queued job.
WITH ended AS (
    DELETE FROM windlass.job AS j
    WHERE j.id = :id::uuid
        AND j.token IS NULL
    RETURNING j.*
), history AS (
    {{cancelled(e, {{cancel_error(e)}})}}
    FROM ended AS e
), counted AS (
    INSERT INTO windlass.delta (phase, queued, cancelled)
    SELECT e.phase, -1, 1
    FROM ended AS e
)
SELECT e.id, e.flags
FROM ended AS e;

-- name: cancel.later
-- Ends jobs that wait for one of these reasons, locking them in id order. One that ends because of a parent names the first that did not
-- complete; its edge was marked before, in the same transaction.
WITH found AS MATERIALIZED (
    SELECT l.id
    FROM (SELECT g.id FROM unnest(:ids::uuid[]) AS g (id) ORDER BY g.id) AS g
    CROSS JOIN LATERAL (
        SELECT w.id
        FROM windlass.job_later AS w
        WHERE w.id = g.id
            AND w.reason = ANY(:reasons::text[])
        FOR UPDATE
    ) AS l
), ended AS (
    DELETE FROM windlass.job_later AS l
    USING found AS f
    WHERE l.id = ANY(ARRAY[f.id])
    RETURNING l.*
), history AS (
    {{cancelled(e, {{cancel_error(e)}} || COALESCE({{cancel_details(e)}} '{}'))}}
    FROM ended AS e
), counted AS (
    INSERT INTO windlass.delta (phase, waiting, scheduled, queued, cancelled)
    SELECT e.phase,
        -count(*) FILTER (WHERE e.reason IN ('waiting', 'unlinked', 'limited', 'paced')),
        -count(*) FILTER (WHERE e.reason IN ('scheduled', 'retry')),
        -count(*) FILTER (WHERE e.reason = 'inbox'),
        count(*)
    FROM ended AS e
    GROUP BY e.phase
)
SELECT e.id, e.flags
FROM ended AS e;

-- name: retry.take
-- Brings an ended job back into its queue as a new generation. The attempt that had ended it joins the others; outputs of
-- the phases before stay, and of a failed or cancelled job the checkpoint and the named outputs of its phase too, so that it goes on where it
-- was. The output without a name goes: it would say that the phase is done.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), taken AS (
    DELETE FROM windlass.job_done AS d
    WHERE d.id = :id::uuid
    RETURNING d.*
), live AS (
    INSERT INTO windlass.job (id, created_at, ready_at, lane, generation, max_attempts, flags, kind, phase, correlation, args)
    SELECT t.id, t.created_at, c.at, t.lane, t.generation + 1, t.max_attempts,
        (t.flags & {SURVIVES})
            {{new_flags(t.kind)}}
            {{revived_flags(t)}}
            | CASE WHEN EXISTS (
                SELECT FROM jsonb_array_elements(t.outputs) AS o
                WHERE (o ->> 'phase' <> t.phase OR (o ->> 'name' <> '' AND t.state <> 'completed'))
            ) THEN {OUTPUT} ELSE 0 END
            | CASE WHEN t.progress IS NOT NULL AND t.state <> 'completed' THEN {CHECKPOINT} ELSE 0 END,
        t.kind, t.phase, t.correlation, t.args
    FROM taken AS t
    CROSS JOIN clock AS c
), tried AS (
    INSERT INTO windlass.attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase, error, traceback,
        instance, processor, waited_ms, ran_ms)
    SELECT t.id, t.token, t.claimed_at, t.finished_at, t.generation, t.attempt, t.state, t.phase, t.error, t.traceback,
        t.instance, t.processor, t.waited_ms, t.ran_ms
    FROM taken AS t
    WHERE t.token IS NOT NULL
), outputs AS (
    INSERT INTO windlass.output (job, generation, phase, name, at, value)
    SELECT t.id, t.generation + 1, o.phase, o.name, c.at, COALESCE(o.value, 'null')
    FROM taken AS t
    CROSS JOIN clock AS c
    CROSS JOIN LATERAL jsonb_to_recordset(t.outputs) AS o (phase text, name text, value jsonb)
    WHERE (o.phase <> t.phase OR (o.name <> '' AND t.state <> 'completed'))
), checkpoints AS (
    INSERT INTO windlass.checkpoint (job, generation, token, done, total, at, position)
    SELECT t.id, t.generation + 1, COALESCE(p.token, 0), p.done, p.total, c.at, p.position
    FROM taken AS t
    CROSS JOIN clock AS c
    CROSS JOIN LATERAL jsonb_to_record(t.progress) AS p (done bigint, total bigint, position jsonb, token bigint)
    WHERE t.state <> 'completed'
        AND t.progress IS NOT NULL
)
{{retried}}
, counted AS (
    INSERT INTO windlass.delta (phase, queued, completed, failed, cancelled)
    SELECT t.phase, 1, -(t.state = 'completed')::int, -(t.state = 'failed')::int, -(t.state = 'cancelled')::int
    FROM taken AS t
)
SELECT t.id, t.kind, t.phase, t.flags, t.args, t.key
FROM taken AS t;

-- name: get
-- One job, wherever it is, with the progress and outputs it has now; of one that waits, the outcome of its last attempt.
SELECT j.id, j.kind, j.phase, j.state, j.lane, j.generation, j.attempt, j.crashes, j.max_attempts, j.args, j.correlation,
    j.created_at,
    GREATEST(j.updated_at, p.at, a.ended_at, CASE WHEN j.reason IN ('limited', 'paced', 'waiting') THEN LEAST(j.run_at, clock.at) END) AS updated_at,
    j.run_at, j.started_at, j.claimed_at, j.finished_at, j.cancel_at,
    COALESCE(j.reason, (
        SELECT 'paused'
        FROM windlass.phase AS w
        WHERE w.name = j.phase
            AND j.state = 'queued'
            AND {{lasts(w, clock.at)}}
    )) AS reason,
    j.pending, j.result, COALESCE(j.error, a.error) AS error, COALESCE(j.traceback, a.traceback) AS traceback,
    COALESCE(j.outputs, {{outputs_of(j)}}) AS outputs,
    COALESCE(j.progress, CASE WHEN p.job IS NOT NULL THEN {{as_progress(p)}} END) AS progress,
    COALESCE(j.finished_at, a.ended_at) AS error_at, p.at AS saved_at{{view.columns(j)}}
FROM windlass.jobs AS j
CROSS JOIN (SELECT {{now}} AS at) AS clock
LEFT JOIN windlass.checkpoint AS p ON p.job = j.id
LEFT JOIN {{last_attempt(j)}} AS a ON j.reason IS NOT NULL
WHERE j.id = :id::uuid;

-- name: claim.one
-- Claims one job by its id, if it is queued, its phase is not paused, and this instance is not dead. Returns it as `step` does. A
-- correlation id that is given becomes the job's.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), picked AS MATERIALIZED (
    SELECT j.ctid AS tid, j.lane, j.ready_at, j.phase
    FROM windlass.job AS j
    WHERE j.id = :id::uuid
        AND j.token IS NULL
        AND NOT {{is_paused(j.phase, (SELECT at FROM clock))}}
        AND {{is_alive(:instance::uuid)}}
    FOR UPDATE OF j SKIP LOCKED
), held AS (
    INSERT INTO windlass.claim (instance, at, lanes, los, his, phase)
    SELECT :instance::uuid, c.at, ARRAY[p.lane], ARRAY[p.ready_at], ARRAY[p.ready_at], p.phase
    FROM picked AS p
    CROSS JOIN clock AS c
    RETURNING token, at
), claimed AS (
    UPDATE windlass.job AS j
    SET token = h.token,
        claimed_at = h.at,
        attempt = LEAST(j.attempt + 1, 32767),
        flags = j.flags | {STARTED},
        correlation = COALESCE(:correlation::text, j.correlation)
    FROM held AS h
    WHERE j.ctid = ANY(ARRAY(SELECT tid FROM picked))
    RETURNING j.id, j.token, j.kind, j.phase, j.lane, j.generation, j.attempt, j.max_attempts, j.crashes, j.flags, j.args,
        j.correlation, GREATEST(LEAST(j.created_at, '9999-01-01'), '0002-01-01') AS created_at,
        GREATEST(LEAST(j.ready_at, '9999-01-01'), '0002-01-01') AS ready_at, j.claimed_at
), counted AS (
    INSERT INTO windlass.delta (phase, queued, processing)
    SELECT c.phase, -1, 1
    FROM claimed AS c
)
SELECT *
FROM claimed;

-- fragment: notified(phases)
-- Hints, when the transaction commits, that phases have work, to the instances that wait for them; returns the phases.
SELECT w.phase, pg_notify('windlass', w.phase)::text
FROM windlass.wake AS w
WHERE w.phase IN ({phases})
    AND w.waiting_until > clock_timestamp()

-- fragment: queued_flags(row)
-- The flags of a job that comes into its queue: those of rules, too, that were defined while it waited or while the transaction that
-- enqueued it was open.
{row}.flags {{new_flags({row}.kind)}}

-- fragment: cancel_error(job)
-- The error of a cancelled job.
:error::jsonb || jsonb_build_object('phase', {job}.phase, 'attempt', {job}.attempt, 'correlation_id', COALESCE({job}.correlation, {job}.id::text))

-- fragment: outputs_of(job)
-- The outputs of a job in the order they were stored, NULL if it has none. Those of earlier generations left with their end.
(
    SELECT jsonb_agg(jsonb_build_object('phase', o.phase, 'name', o.name, 'value', o.value) ORDER BY o.at, o.phase, o.name)
    FROM windlass.output AS o
    WHERE o.job = {job}.id
)

-- fragment: as_progress(checkpoint)
-- A checkpoint as JSON.
jsonb_build_object('done', {checkpoint}.done, 'total', {checkpoint}.total, 'position', {checkpoint}.position, 'token', {checkpoint}.token)

-- fragment: last_attempt(job)
-- The last attempt that a waiting job made in its phase, one row at most.
LATERAL (
    SELECT t.ended_at, t.error, t.traceback
    FROM windlass.attempt AS t
    WHERE t.job = {job}.id
        AND t.generation = {job}.generation
        AND t.phase = {job}.phase -- belt: the attempt that left another phase has no error, and ended when the job came here
    ORDER BY abs(t.token) DESC
    LIMIT 1
)
