-- Flow control: limits per key, rates and ageing per phase, debounced enqueues.
--
-- The way of a limited job: enqueue (or the promoter, an advance, a retry by hand) parks it, which is an insert and locks nothing;
-- upkeep assigns it to its gate, and admits as many as the gate has places for; the transaction that ends a job that has a
-- place frees it and admits the next one. Jobs are put at a gate, places are taken and freed only under the lock of the gate's row. The
-- lock is the last of a transaction (jobs.sql), rows of job_later are then taken as they are free (SKIP LOCKED), so no cycle can form.

-- name: flow.first
-- Notes what the first limited jobs of phases say of them, where nothing is stored yet.
INSERT INTO windlass.flow (phase, told_at, filled_at, tokens, rate, lim, burst)
SELECT g.phase, c.at, c.at, COALESCE(g.burst, 0), g.rate, g.lim, g.burst
FROM json_to_recordset(:phases::json) AS g (phase text, rate double precision, lim integer, burst integer)
CROSS JOIN (SELECT {{now}} AS at) AS c
ORDER BY g.phase
ON CONFLICT (phase) DO NOTHING;

-- name: park
-- Parks queued jobs that have moved to a phase where they are limited; returns how many.
WITH parked AS (
    DELETE FROM windlass.job AS j
    WHERE j.id = ANY(:ids::uuid[])
        AND j.token IS NULL
        AND EXISTS (SELECT FROM windlass.job_limit AS t WHERE t.job = j.id AND t.phase = j.phase OFFSET 0)
    RETURNING j.*
), later AS (
    INSERT INTO windlass.job_later (id, created_at, run_at, started_at, lane, generation, attempt, crashes, max_attempts,
        flags, reason, kind, phase, correlation, args)
    SELECT p.id, p.created_at, p.ready_at, p.started_at, p.lane, p.generation, p.attempt, p.crashes, p.max_attempts, p.flags,
        'limited', p.kind, p.phase, p.correlation, p.args
    FROM parked AS p
), counted AS (
    INSERT INTO windlass.delta (phase, waiting, queued)
    SELECT p.phase, count(*), -count(*)
    FROM parked AS p
    GROUP BY p.phase
)
SELECT count(*)
FROM parked;

-- name: gate.open
-- Makes the gates that are missing. Those that are there are left out first: an insert that conflicts waits for a session that is updating the row.
INSERT INTO windlass.gate (phase, key, used_at, admitted)
SELECT g.phase, g.key, {{now}}, 0
FROM json_to_recordset(:gates::json) AS g (phase text, key text)
WHERE NOT EXISTS (SELECT FROM windlass.gate AS o WHERE o.phase = g.phase AND o.key = g.key OFFSET 0)
ORDER BY g.phase, g.key
ON CONFLICT (phase, key) DO NOTHING;

-- name: gate.try
-- Locks gates, leaving out those that another session has locked; returns the locked ones, in order.
SELECT g.phase, g.key
FROM json_to_recordset(:gates::json) AS w (phase text, key text)
CROSS JOIN LATERAL (
    SELECT o.phase, o.key
    FROM windlass.gate AS o
    WHERE o.phase = w.phase
        AND o.key = w.key
    FOR UPDATE SKIP LOCKED
) AS g
ORDER BY g.phase, g.key;

-- name: free.lock
-- Locks, in order, the gates where these jobs have places.
WITH held AS MATERIALIZED (
    SELECT DISTINCT t.phase, t.key
    FROM windlass.job_limit AS t
    WHERE t.job = ANY(:ids::uuid[])
        AND t.admitted::integer = 1
)
SELECT g.phase, g.key
FROM (SELECT w.phase, w.key FROM held AS w ORDER BY w.phase, w.key) AS h
CROSS JOIN LATERAL (
    SELECT o.phase, o.key
    FROM windlass.gate AS o
    WHERE o.phase = h.phase
        AND o.key = h.key
    FOR UPDATE
) AS g;

-- name: free.later
-- Notes that jobs give up their places, in a transaction that may stay open for long; upkeep frees them after its commit, and is notified. The
-- limits of jobs that ended go here where they have no place.
WITH ended AS (
    DELETE FROM windlass.job_limit AS t
    WHERE t.job = ANY(:ended::uuid[])
        AND NOT t.admitted
), gone AS (
    UPDATE windlass.job_limit AS t
    SET gone = TRUE
    WHERE t.job = ANY(:ids::uuid[])
        AND t.admitted::integer = 1
    RETURNING t.job
)
{{notified(SELECT '@later' FROM gone)}};

-- name: free.gone
-- Locks places that were given up so, a page of them from a place on, and returns their jobs and gates.
SELECT t.job, t.phase, t.key
FROM windlass.job_limit AS t
WHERE t.gone
    AND t.job >= :job::uuid -- belt: implied by the next line; the index has the job alone
    AND (t.job > :job::uuid OR t.phase > :phase::text)
ORDER BY t.job, t.phase || ''
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: free.places
-- Frees locked places that were given up so, at locked gates, each by job and phase: by now the job may have a place in another phase. The
-- limits of a job that lives stay. A statement of its own: it sees a retry by hand that was committed before the lock was given.
WITH given AS MATERIALIZED (
    SELECT g.job, g.phase,
        COALESCE((SELECT TRUE FROM windlass.job AS j WHERE j.id = g.job), (SELECT TRUE FROM windlass.job_later AS l WHERE l.id = g.job), FALSE) AS is_living
    FROM json_to_recordset(:places::json) AS g (job uuid, phase text)
), ended AS (
    DELETE FROM windlass.job_limit AS t
    USING given AS g
    WHERE t.job = ANY(ARRAY[g.job])
        AND t.phase = g.phase
        AND t.gone -- belt: they were locked as such
        AND NOT g.is_living
    RETURNING t.phase, t.key
), moved AS (
    UPDATE windlass.job_limit AS t
    SET admitted = FALSE,
        gone = FALSE
    FROM given AS g
    WHERE t.job = ANY(ARRAY[g.job])
        AND t.phase = g.phase
        AND t.gone -- belt: they were locked as such
        AND g.is_living -- belt: the rows of others are removed by the part before
    RETURNING t.phase, t.key
)
UPDATE windlass.gate AS g
SET admitted = g.admitted - f.n
FROM (
    SELECT s.phase, s.key, count(*) AS n
    FROM (SELECT e.phase, e.key FROM ended AS e UNION ALL SELECT m.phase, m.key FROM moved AS m) AS s
    GROUP BY s.phase, s.key
) AS f
CROSS JOIN LATERAL (SELECT o.ctid AS tid FROM windlass.gate AS o WHERE o.phase = f.phase AND o.key = f.key LIMIT 1) AS l
WHERE g.ctid = l.tid; -- the row is locked, so it is where it was

-- name: admit
-- Frees the places of jobs that ended or went elsewhere, each once (those that ended lose their limits with them), and gives the free places of
-- their gates, and of the :gates named, to the jobs that wait there: highest priority first, then oldest first, at most :limit a gate. All
-- these gates are locked. A job that gets a place goes into the queue, or waits for its phase's rate if it has one. Returns each of them, whether it
-- is in its queue, whether it waits for a rate, and whether there may be more to admit at its gate. Rows are named by arrays and single
-- reads: joins would be planned for as many as wait, and read whole tables beside a crowd.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), gone AS (
    DELETE FROM windlass.job_limit AS t
    WHERE t.job = ANY(:ended::uuid[])
    RETURNING t.phase, t.key, t.admitted
), left_over AS (
    UPDATE windlass.job_limit AS t
    SET admitted = FALSE,
        gone = FALSE
    WHERE t.job = ANY(:moved::uuid[])
        AND t.admitted::integer = 1
    RETURNING t.phase, t.key
), freed AS MATERIALIZED (
    SELECT s.phase, s.key, sum(s.n) AS n
    FROM (
        SELECT d.phase, d.key, 1 AS n
        FROM gone AS d
        WHERE d.admitted
        UNION ALL
        SELECT o.phase, o.key, 1
        FROM left_over AS o
        UNION ALL
        SELECT w.phase, w.key, 0
        FROM json_to_recordset(:gates::json) AS w (phase text, key text)
    ) AS s
    GROUP BY s.phase, s.key
), room AS MATERIALIZED (
    SELECT f.phase, f.key, f.n, g.tid, w.rate, LEAST(GREATEST(0, COALESCE(w.lim - g.admitted + f.n, :limit)), :limit)::integer AS places
    FROM freed AS f
    CROSS JOIN LATERAL (
        SELECT o.ctid AS tid, o.admitted
        FROM windlass.gate AS o
        WHERE o.phase = f.phase
            AND o.key = f.key
        LIMIT 1
    ) AS g
    LEFT JOIN windlass.flow AS w ON w.phase = f.phase
), picked AS MATERIALIZED (
    SELECT s.id, r.phase, r.rate, r.places, row_number() OVER (ORDER BY s.lane, s.run_at, s.id) AS place
    FROM room AS r
    CROSS JOIN LATERAL (
        SELECT l.id, l.lane, l.run_at
        FROM windlass.job_later AS l
        WHERE l.reason = 'limited' -- implied by the gate; the planner needs it to prove the partial index
            AND l.phase = r.phase
            AND l.gate = r.key
        ORDER BY l.lane, l.run_at, l.id
        LIMIT r.places
        FOR UPDATE SKIP LOCKED
    ) AS s
), placed AS (
    UPDATE windlass.job_limit AS t
    SET admitted = TRUE
    FROM picked AS p
    WHERE t.job = ANY(ARRAY[p.id])
        AND t.phase = p.phase
    RETURNING t.job, t.phase, t.key, t.rate IS NOT NULL AND p.rate IS NOT NULL AS is_paced, p.places, p.place
), counted AS (
    UPDATE windlass.gate AS g
    SET admitted = g.admitted - r.n + COALESCE(n.n, 0),
        used_at = c.at
    FROM room AS r
    LEFT JOIN (SELECT p.phase, p.key, count(*) AS n FROM placed AS p GROUP BY p.phase, p.key) AS n ON n.phase = r.phase AND n.key = r.key
    CROSS JOIN clock AS c
    WHERE g.ctid = r.tid -- the row is locked, so it is where it was
), passed AS (
    UPDATE windlass.job_later AS l
    SET reason = 'paced',
        gate = NULL
    FROM placed AS p
    WHERE l.id = ANY(ARRAY[p.job])
        AND p.is_paced -- belt: the rows of others are removed by the part after, whose rows are read first
), moved AS (
    DELETE FROM windlass.job_later AS l
    USING placed AS p
    WHERE l.id = ANY(ARRAY[p.job])
        AND NOT p.is_paced
    RETURNING l.*, p.place
), {{queued}}
SELECT p.job AS id, p.phase, p.key, TRUE AS is_in, p.is_paced, p.places = :limit AS is_more, (SELECT count(*) FROM notified) AS notified
FROM placed AS p;

-- name: admit.move
-- Moves jobs that passed their gates into their queues with a fresh ready_at, in the order they are given, and notifies waiting instances.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), moved AS (
    DELETE FROM windlass.job_later AS l
    USING unnest(:ids::uuid[]) WITH ORDINALITY AS g (id, place)
    WHERE l.id = ANY(ARRAY[g.id])
        AND l.reason || '' = 'paced'
    RETURNING l.*, g.place
), {{queued}}
SELECT m.phase, count(*) AS moved, (SELECT count(*) FROM notified) AS notified
FROM moved AS m
GROUP BY m.phase;

-- name: pace.lock
-- Locks a phase's bucket and returns what it holds now, and how many jobs of the phase are queued already (counted up to the burst: a queue
-- that is not served must not fill up and then run all at once). No row if another session has it.
SELECT f.rate, f.burst, LEAST(f.burst, f.tokens + GREATEST(0, EXTRACT(EPOCH FROM c.at - f.filled_at)) * f.rate)::double precision AS tokens, c.at,
    f.filled_at > c.at AS is_ahead, q.queued
FROM windlass.flow AS f
CROSS JOIN (SELECT {{now}} AS at) AS c
CROSS JOIN LATERAL (
    SELECT count(*) AS queued
    FROM (SELECT FROM windlass.job AS j WHERE j.phase = f.phase AND j.token IS NULL LIMIT COALESCE(f.burst, 0)) AS j
) AS q
WHERE f.phase = :phase
FOR UPDATE OF f SKIP LOCKED;

-- name: age
-- Moves queued jobs of a phase up one lane for every :age seconds they have waited, a page of them; they keep their ready_at. Returns how many.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), old AS MATERIALIZED (
    SELECT w.id, LEAST(w.lane, GREATEST(1, floor(EXTRACT(EPOCH FROM c.at - w.ready_at) / :age::double precision) - COALESCE(w.risen, 0)))::smallint AS lanes
    FROM clock AS c
    CROSS JOIN generate_series(1, 9) AS n (lane)
    CROSS JOIN LATERAL (
        SELECT j.id, j.lane, j.ready_at, j.risen
        FROM windlass.job AS j
        WHERE j.phase = :phase
            AND j.lane = n.lane
            AND j.ready_at <= c.at - :age::double precision * interval '1 second' -- belt: implied by the next line; bounds the scan
            AND j.ready_at <= c.at - :age::double precision * (COALESCE(j.risen, 0) + 1) * interval '1 second'
            AND j.token IS NULL
        ORDER BY j.ready_at, j.id
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS w
), raised AS (
    UPDATE windlass.job AS j
    SET lane = j.lane - o.lanes,
        risen = COALESCE(j.risen, 0) + o.lanes
    FROM old AS o
    WHERE j.id = ANY(ARRAY[o.id])
    RETURNING j.id
)
SELECT count(*)
FROM raised;

-- name: age.later
-- The same for jobs of a phase that wait at its gates or for its rate.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), old AS MATERIALIZED (
    SELECT l.id, LEAST(l.lane, GREATEST(1, floor(EXTRACT(EPOCH FROM c.at - l.run_at) / :age::double precision) - COALESCE(l.risen, 0)))::smallint AS lanes
    FROM windlass.job_later AS l
    CROSS JOIN clock AS c
    WHERE l.reason IN ('limited', 'paced')
        AND l.phase = :phase
        AND l.lane > 0
        AND l.run_at <= c.at - :age::double precision * (COALESCE(l.risen, 0) + 1) * interval '1 second'
    ORDER BY l.run_at, l.id
    LIMIT :limit
    FOR UPDATE OF l SKIP LOCKED
), raised AS (
    UPDATE windlass.job_later AS l
    SET lane = l.lane - o.lanes,
        risen = COALESCE(l.risen, 0) + o.lanes
    FROM old AS o
    WHERE l.id = ANY(ARRAY[o.id])
    RETURNING l.id
)
SELECT count(*)
FROM raised;

-- name: gates.check
-- Gates whose count is not the number of jobs that have a place there and are paced, queued or processing, and gates where a job is admitted
-- without a place. One statement, one snapshot: a running transaction changes both, so a difference is a mistake. Returns the count, the places
-- given, and the jobs that really have or need one. A phase whose limit was lifted is not scanned: no job needs a place there; of
-- the others, the 20 * :limit jobs first in line.
SELECT COALESCE(g.phase, p.phase) AS phase, COALESCE(g.key, p.key) AS key, COALESCE(g.admitted, 0) AS admitted,
    COALESCE(p.given, 0) AS given, COALESCE(p.used, 0) AS used
FROM windlass.gate AS g
FULL JOIN (
    SELECT s.phase, s.key, sum(s.given) AS given, sum(s.used) AS used
    FROM (
        SELECT t.phase, t.key, 1 AS given, (
                EXISTS (SELECT FROM windlass.job AS j WHERE j.id = t.job AND j.phase = t.phase)
                OR EXISTS (SELECT FROM windlass.job_later AS l WHERE l.id = t.job AND l.phase = t.phase AND l.reason = 'paced')
                OR t.gone
            )::integer AS used
        FROM windlass.job_limit AS t
        WHERE t.admitted
        UNION ALL
        SELECT f.phase, n.key, 0, 1
        FROM windlass.flow AS f
        CROSS JOIN LATERAL (
            (
                SELECT j.id
                FROM windlass.job AS j
                WHERE j.phase = f.phase
                ORDER BY j.lane, j.ready_at, j.id
                LIMIT 20 * :limit
            )
            UNION ALL
            (
                SELECT l.id
                FROM windlass.job_later AS l
                WHERE l.reason = 'paced'
                    AND l.phase = f.phase
                ORDER BY l.lane, l.run_at, l.id
                LIMIT 20 * :limit
            )
        ) AS w
        CROSS JOIN LATERAL (
            SELECT t.key
            FROM windlass.job_limit AS t
            WHERE t.job = w.id
                AND t.phase = f.phase
                AND t.lim IS NOT NULL
                AND (NOT t.admitted OR t.gone)
            LIMIT 1 -- belt: (job, phase) is unique; keeps the look-up from becoming a join
        ) AS n
        WHERE f.lim IS NOT NULL
    ) AS s
    GROUP BY s.phase, s.key
) AS p ON p.phase = g.phase AND p.key = g.key
WHERE (
        COALESCE(g.admitted, 0) <> COALESCE(p.given, 0)
        OR COALESCE(p.given, 0) <> COALESCE(p.used, 0)
    )
ORDER BY 1, 2
LIMIT :limit;

-- name: gates.repair
-- Removes the limits of jobs at locked gates that are not there any more (their end left their limits behind), gives a place to the jobs
-- that need one and to no others, and counts anew. Each statement sees what was committed before the lock was given.
DELETE FROM windlass.job_limit AS t
USING json_to_recordset(:gates::json) AS w (phase text, key text)
WHERE t.phase = w.phase
    AND t.key = w.key
    AND t.admitted
    AND NOT t.gone
    AND NOT EXISTS (SELECT FROM windlass.job AS j WHERE j.id = t.job)
    AND NOT EXISTS (SELECT FROM windlass.job_later AS l WHERE l.id = t.job);
UPDATE windlass.job_limit AS t
SET admitted = FALSE
FROM json_to_recordset(:gates::json) AS w (phase text, key text)
WHERE t.phase = w.phase
    AND t.key = w.key
    AND t.admitted -- belt: saves the write where there is no place
    AND NOT t.gone;
UPDATE windlass.job_limit AS t
SET admitted = TRUE,
    gone = FALSE
FROM json_to_recordset(:gates::json) AS w (phase text, key text)
WHERE t.phase = w.phase
    AND t.key = w.key
    AND t.lim IS NOT NULL
    AND (
        EXISTS (SELECT FROM windlass.job AS j WHERE j.id = t.job AND j.phase = t.phase)
        OR EXISTS (SELECT FROM windlass.job_later AS l WHERE l.id = t.job AND l.phase = t.phase AND l.reason = 'paced')
    );
UPDATE windlass.gate AS g
SET admitted = (SELECT count(*) FROM windlass.job_limit AS t WHERE t.phase = g.phase AND t.key = g.key AND t.admitted)
FROM json_to_recordset(:gates::json) AS w (phase text, key text)
WHERE g.phase = w.phase
    AND g.key = w.key;

-- name: gates.sweep
-- Removes locked gates where no job waits. A statement of its own: it sees jobs that were put there before the lock was given.
DELETE FROM windlass.gate AS g
USING json_to_recordset(:gates::json) AS w (phase text, key text)
WHERE g.phase = w.phase
    AND g.key = w.key
    AND NOT EXISTS (SELECT FROM windlass.job_later AS l WHERE l.reason = 'limited' AND l.phase = g.phase AND l.gate = g.key);

-- column: agenda.parked
-- Whether limited jobs wait that are at no gate yet, or places were given up.
(SELECT l.id FROM windlass.job_later AS l WHERE l.reason = 'limited' AND l.gate IS NULL ORDER BY l.id LIMIT 1) IS NOT NULL
    OR EXISTS (SELECT FROM windlass.job_limit AS t WHERE t.gone)

-- column: agenda.paced
-- Whether jobs wait for the rate of their phase.
(SELECT l.phase FROM windlass.job_later AS l WHERE l.reason = 'paced' ORDER BY l.phase LIMIT 1) IS NOT NULL

-- column: history.limits(job)
-- The limits of a job that ends, so that a retry by hand stores them again.
CASE WHEN {job}.flags & {LIMIT} <> 0 THEN (
    SELECT jsonb_agg(jsonb_build_object('phase', t.phase, 'key', t.key, 'lim', t.lim, 'rate', t.rate, 'burst', t.burst))
    FROM windlass.job_limit AS t
    WHERE t.job = {job}.id
) END

-- fragment: retried
-- A job that is retried by hand has its limits again.
, retried_limits AS (
    INSERT INTO windlass.job_limit AS o (job, phase, key, lim, rate, burst)
    SELECT t.id, l.phase, l.key, l.lim, l.rate, l.burst
    FROM taken AS t
    CROSS JOIN LATERAL jsonb_to_recordset(t.limits) AS l (phase text, key text, lim integer, rate double precision, burst integer)
    ON CONFLICT (job, phase) DO UPDATE -- its place is still to be freed: wait for the transaction that removes the limits of an ended job
    SET gone = o.gone
)

-- fragment: revived
-- Children that come back with their parent have their limits again.
, revived_limits AS (
    INSERT INTO windlass.job_limit (job, phase, key, lim, rate, burst)
    SELECT t.id, l.phase, l.key, l.lim, l.rate, l.burst
    FROM taken AS t
    CROSS JOIN LATERAL jsonb_to_recordset(t.limits) AS l (phase text, key text, lim integer, rate double precision, burst integer)
)

-- fragment: queued
-- CTEs that put the rows of `moved` into their queues, in the order of their places, count them and notify waiting instances.
live AS (
    {{to_queue(m, c.at + (m.place - 1) * interval '1 microsecond')}}
    FROM moved AS m
    CROSS JOIN clock AS c
    ON CONFLICT (id) DO NOTHING
), changed AS (
    INSERT INTO windlass.delta (phase, waiting, queued)
    SELECT m.phase, -count(*), count(*)
    FROM moved AS m
    GROUP BY m.phase
), notified AS MATERIALIZED (
    {{notified(SELECT m.phase FROM moved AS m)}}
)
