-- Flow control; the PostgreSQL file of the same name describes the protocol. With one writer at a time there is nothing to lock: a gate is
-- always free to use.

-- name: flow.first
-- Notes what the first limited jobs of phases say of them, where nothing is stored yet.
INSERT INTO windlass_flow (phase, told_at, filled_at, tokens, rate, lim, burst)
SELECT g.value ->> '$.phase', :now, :now, COALESCE(g.value ->> '$.burst', 0), g.value ->> '$.rate', g.value ->> '$.lim', g.value ->> '$.burst'
FROM json_each(:phases) AS g
WHERE NOT EXISTS (SELECT 1 FROM windlass_flow AS f WHERE f.phase = g.value ->> '$.phase');

-- name: park
-- Parks queued jobs that have moved to a phase where they are limited; returns how many.
INSERT INTO windlass_job_later (id, created_at, run_at, started_at, lane, generation, attempt, crashes, max_attempts, flags, reason,
    kind, phase, correlation, args)
SELECT j.id, j.created_at, j.ready_at, j.started_at, j.lane, j.generation, j.attempt, j.crashes, j.max_attempts, j.flags, 'limited',
    j.kind, j.phase, j.correlation, j.args
FROM windlass_job AS j
WHERE j.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND j.token IS NULL
    AND EXISTS (SELECT 1 FROM windlass_job_limit AS t WHERE t.job = j.id AND t.phase = j.phase);
INSERT INTO windlass_delta (phase, waiting, queued)
SELECT j.phase, count(*), -count(*)
FROM windlass_job AS j
WHERE j.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND j.token IS NULL
    AND EXISTS (SELECT 1 FROM windlass_job_limit AS t WHERE t.job = j.id AND t.phase = j.phase)
GROUP BY j.phase;
DELETE FROM windlass_job
WHERE id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND token IS NULL
    AND EXISTS (SELECT 1 FROM windlass_job_limit AS t WHERE t.job = windlass_job.id AND t.phase = windlass_job.phase);
SELECT changes();

-- name: gate.open
-- Makes the gates that are missing.
INSERT INTO windlass_gate (phase, key, used_at, admitted)
SELECT g.value ->> '$.phase', g.value ->> '$.key', :now, 0
FROM json_each(:gates) AS g
WHERE NOT EXISTS (SELECT 1 FROM windlass_gate AS o WHERE o.phase = g.value ->> '$.phase' AND o.key = g.value ->> '$.key');

-- name: gate.try
-- The gates that there are.
SELECT g.phase, g.key
FROM json_each(:gates) AS w
CROSS JOIN windlass_gate AS g ON g.phase = w.value ->> '$.phase' AND g.key = w.value ->> '$.key'
ORDER BY g.phase, g.key;

-- name: free.lock
-- The gates where these jobs have places.
SELECT DISTINCT t.phase, t.key
FROM windlass_job_limit AS t
WHERE t.job IN (SELECT g.value FROM json_each(:ids) AS g)
    AND t.admitted
ORDER BY t.phase, t.key;

-- name: free.later
-- Notes that jobs give up their places, in a transaction that may stay open for long; upkeep frees them after its commit. The limits of
-- jobs that ended go here where they have no place.
DELETE FROM windlass_job_limit
WHERE job IN (SELECT g.value FROM json_each(:ended) AS g)
    AND NOT admitted;
UPDATE windlass_job_limit
SET gone = 1
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g)
    AND admitted;

-- name: free.gone
-- Places that were given up so, a page of them from a place on: their jobs and gates.
SELECT t.job, t.phase, t.key
FROM windlass_job_limit AS t
WHERE t.gone
    AND (t.job, t.phase) > (:job, :phase)
ORDER BY t.job, t.phase
LIMIT :limit;

-- name: free.places
-- Frees places that were given up so, each by job and phase: by now the job may have a place in another phase. The limits of a job that
-- lives stay.
UPDATE windlass_gate
SET admitted = admitted - p.n
FROM (
    SELECT t.phase, t.key, count(*) AS n
    FROM windlass_job_limit AS t
    WHERE (t.job, t.phase) IN (SELECT g.value ->> '$.job', g.value ->> '$.phase' FROM json_each(:places) AS g)
        AND t.gone -- belt: they were found as such
    GROUP BY t.phase, t.key
) AS p
WHERE windlass_gate.phase = p.phase
    AND windlass_gate.key = p.key;
DELETE FROM windlass_job_limit
WHERE (job, phase) IN (SELECT g.value ->> '$.job', g.value ->> '$.phase' FROM json_each(:places) AS g)
    AND gone -- belt: they were found as such
    AND NOT EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = windlass_job_limit.job)
    AND NOT EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = windlass_job_limit.job);
UPDATE windlass_job_limit
SET admitted = 0,
    gone = 0
WHERE (job, phase) IN (SELECT g.value ->> '$.job', g.value ->> '$.phase' FROM json_each(:places) AS g)
    AND gone; -- belt: they were found as such

-- name: admit
-- Frees the places of jobs that ended or went elsewhere, each once (those that ended lose their limits with them), and gives a free place at
-- each of the :gates to the job that is first there: highest priority, then oldest. One a call, because SQLite's LIMIT cannot be a number of
-- the row at hand; the caller goes on while the result says that there may be more, and admits the jobs that wait for no rate. From the first
-- `admitted = 1` to the last statement, the jobs that got a place just now are the ones that are at a gate and have one.
UPDATE windlass_gate
SET admitted = admitted - p.n,
    used_at = :now
FROM (
    SELECT t.phase, t.key, count(*) AS n
    FROM windlass_job_limit AS t
    WHERE (
            t.job IN (SELECT g.value FROM json_each(:ended) AS g)
            OR t.job IN (SELECT g.value FROM json_each(:moved) AS g)
        )
        AND t.admitted
    GROUP BY t.phase, t.key
) AS p
WHERE windlass_gate.phase = p.phase
    AND windlass_gate.key = p.key;
DELETE FROM windlass_job_limit
WHERE job IN (SELECT g.value FROM json_each(:ended) AS g);
UPDATE windlass_job_limit
SET admitted = 0,
    gone = 0
WHERE job IN (SELECT g.value FROM json_each(:moved) AS g);
UPDATE windlass_job_limit
SET admitted = 1
WHERE (job, phase) IN (
        SELECT (
                SELECT l.id
                FROM windlass_job_later AS l
                WHERE l.reason = 'limited'
                    AND l.phase = g.phase
                    AND l.gate = g.key
                ORDER BY l.lane, l.run_at, l.id
                LIMIT 1
            ), g.phase
        FROM json_each(:gates) AS w
        CROSS JOIN windlass_gate AS g ON g.phase = w.value ->> '$.phase' AND g.key = w.value ->> '$.key'
        LEFT JOIN windlass_flow AS f ON f.phase = g.phase
        WHERE (
                f.lim IS NULL
                OR g.admitted < f.lim
            )
    );
UPDATE windlass_gate
SET admitted = admitted + 1,
    used_at = :now
WHERE (phase, key) IN (
        SELECT t.phase, t.key
        FROM {{placed_jobs}}
        WHERE t.admitted
            AND l.gate IS NOT NULL
    );
SELECT t.job AS id, t.phase, t.key, FALSE AS is_in, t.rate IS NOT NULL AND f.rate IS NOT NULL AS is_paced, TRUE AS is_more, 0 AS notified
FROM {{placed_jobs}}
LEFT JOIN windlass_flow AS f ON f.phase = t.phase
WHERE t.admitted
    AND l.gate IS NOT NULL;
UPDATE windlass_job_later
SET reason = 'paced',
    gate = NULL
WHERE id IN (
        SELECT l.id
        FROM {{placed_jobs}}
        WHERE t.admitted
            AND l.gate IS NOT NULL
    );

-- name: admit.move
-- Moves jobs that passed their gates into their queues with a fresh ready_at, in the order they are given.
SELECT l.phase, count(*) AS moved, 0 AS notified
FROM json_each(:ids) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value
WHERE l.reason = 'paced'
GROUP BY l.phase;
{{to_queue(l, :now + g.key)}}
FROM json_each(:ids) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value
WHERE l.reason = 'paced';
INSERT INTO windlass_delta (phase, waiting, queued)
SELECT l.phase, -count(*), count(*)
FROM json_each(:ids) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value
WHERE l.reason = 'paced'
GROUP BY l.phase;
DELETE FROM windlass_job_later
WHERE id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND reason = 'paced';

-- name: pace.lock
-- What a phase's bucket holds now, and how many jobs of the phase are queued already (a queue that is not served must not fill up and then
-- run all at once).
SELECT f.rate, f.burst, min(f.burst, f.tokens + max(0, :now - f.filled_at) / 1000000.0 * f.rate) AS tokens, :now AS at,
    f.filled_at > :now AS is_ahead,
    (SELECT count(*) FROM windlass_job AS j WHERE j.phase = f.phase AND j.token IS NULL) AS queued
FROM windlass_flow AS f
WHERE f.phase = :phase;

-- name: age
-- Moves queued jobs of a phase up one lane for every :age seconds they have waited, a page of them; they keep their ready_at. Returns how many.
UPDATE windlass_job
SET lane = lane - min(lane, max(1, CAST((:now - ready_at) / (:age * 1000000) AS INTEGER) - COALESCE(risen, 0))),
    risen = COALESCE(risen, 0) + min(lane, max(1, CAST((:now - ready_at) / (:age * 1000000) AS INTEGER) - COALESCE(risen, 0)))
WHERE rowid IN (
        SELECT j.rowid
        FROM windlass_job AS j
        WHERE j.phase = :phase
            AND j.lane > 0
            AND j.ready_at <= :now - :age * (COALESCE(j.risen, 0) + 1) * 1000000
            AND j.token IS NULL
        ORDER BY j.ready_at, j.id
        LIMIT :limit
    );
SELECT changes();

-- name: age.later
-- The same for jobs of a phase that wait at its gates or for its rate. Two reads put together: each has its index, `IN` has none.
UPDATE windlass_job_later
SET lane = lane - min(lane, max(1, CAST((:now - run_at) / (:age * 1000000) AS INTEGER) - COALESCE(risen, 0))),
    risen = COALESCE(risen, 0) + min(lane, max(1, CAST((:now - run_at) / (:age * 1000000) AS INTEGER) - COALESCE(risen, 0)))
WHERE rowid IN (
        SELECT w.place
        FROM (
            SELECT l.rowid AS place, l.run_at, l.id, l.lane, l.risen
            FROM windlass_job_later AS l
            WHERE l.reason = 'limited'
                AND l.gate IS NOT NULL
                AND l.phase = :phase
            UNION ALL
            SELECT p.rowid, p.run_at, p.id, p.lane, p.risen
            FROM windlass_job_later AS p
            WHERE p.reason = 'paced'
                AND p.phase = :phase
        ) AS w
        WHERE w.lane > 0
            AND w.run_at <= :now - :age * (COALESCE(w.risen, 0) + 1) * 1000000
        ORDER BY w.run_at, w.id
        LIMIT :limit
    );
SELECT changes();

-- name: gates.check
-- Gates whose count is not the number of jobs that have a place there and are paced, queued or processing, and gates where a job is admitted
-- without a place. Returns the count, the places given, and the jobs that really have or need one. No job needs a place in a phase whose limit
-- was lifted; of the others, the oldest 20 * :limit without one are checked.
SELECT c.phase, c.key, c.admitted, c.given, c.used
FROM (
    SELECT s.phase, s.key, sum(s.admitted) AS admitted, sum(s.given) AS given, sum(s.used) AS used
    FROM (
        SELECT g.phase, g.key, g.admitted, 0 AS given, 0 AS used
        FROM windlass_gate AS g
        UNION ALL
        SELECT t.phase, t.key, 0, 1,
            EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = t.job AND j.phase = t.phase)
            OR EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = t.job AND l.phase = t.phase AND l.reason = 'paced')
            OR t.gone
        FROM windlass_job_limit AS t
        WHERE t.admitted
        UNION ALL
        SELECT n.phase, n.key, 0, 0, 1
        FROM (
            SELECT o.job, o.phase, o.key
            FROM windlass_job_limit AS o
            WHERE o.lim IS NOT NULL
                AND (NOT o.admitted OR o.gone)
            ORDER BY o.job, o.phase
            LIMIT 20 * :limit
        ) AS n
        CROSS JOIN windlass_flow AS f ON f.phase = n.phase
        WHERE f.lim IS NOT NULL
            AND (
                EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = n.job AND j.phase = n.phase)
                OR EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = n.job AND l.phase = n.phase AND l.reason = 'paced')
            )
    ) AS s
    GROUP BY s.phase, s.key
) AS c
WHERE (
        c.admitted <> c.given
        OR c.given <> c.used
    )
ORDER BY c.phase, c.key
LIMIT :limit;

-- name: gates.repair
-- Removes the limits of jobs at gates that are not there any more (their end left their limits behind), gives a place to the jobs that need
-- one and to no others, and counts anew.
DELETE FROM windlass_job_limit
WHERE (phase, key) IN (SELECT w.value ->> '$.phase', w.value ->> '$.key' FROM json_each(:gates) AS w)
    AND admitted
    AND NOT gone
    AND NOT EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = windlass_job_limit.job)
    AND NOT EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = windlass_job_limit.job);
UPDATE windlass_job_limit
SET admitted = 0
WHERE (phase, key) IN (SELECT w.value ->> '$.phase', w.value ->> '$.key' FROM json_each(:gates) AS w)
    AND admitted -- belt: saves the write where there is no place
    AND NOT gone;
UPDATE windlass_job_limit
SET admitted = 1,
    gone = 0
WHERE (phase, key) IN (SELECT w.value ->> '$.phase', w.value ->> '$.key' FROM json_each(:gates) AS w)
    AND lim IS NOT NULL
    AND (
        EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = windlass_job_limit.job AND j.phase = windlass_job_limit.phase)
        OR EXISTS (
            SELECT 1 FROM windlass_job_later AS l
            WHERE l.id = windlass_job_limit.job
                AND l.phase = windlass_job_limit.phase
                AND l.reason = 'paced'
        )
    );
UPDATE windlass_gate
SET admitted = (
        SELECT count(*) FROM windlass_job_limit AS t WHERE t.phase = windlass_gate.phase AND t.key = windlass_gate.key AND t.admitted
    )
WHERE (phase, key) IN (SELECT w.value ->> '$.phase', w.value ->> '$.key' FROM json_each(:gates) AS w);

-- name: gates.sweep
-- Removes gates where no job waits.
DELETE FROM windlass_gate
WHERE (phase, key) IN (SELECT w.value ->> '$.phase', w.value ->> '$.key' FROM json_each(:gates) AS w)
    AND NOT EXISTS (
        SELECT 1 FROM windlass_job_later AS l
        WHERE l.reason = 'limited'
            AND l.phase = windlass_gate.phase
            AND l.gate = windlass_gate.key
    );

-- column: agenda.parked
-- Whether limited jobs wait that are at no gate yet, or places were given up.
EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.reason = 'limited' AND l.gate IS NULL)
    OR EXISTS (SELECT 1 FROM windlass_job_limit AS t WHERE t.gone)

-- column: agenda.paced
-- Whether jobs wait for the rate of their phase.
EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.reason = 'paced')

-- column: history.limits(job)
-- The limits of a job that ends, so that a retry by hand stores them again.
CASE WHEN {job}.flags & {LIMIT} <> 0 THEN (
    SELECT json_group_array(json_object('phase', t.phase, 'key', t.key, 'lim', t.lim, 'rate', t.rate, 'burst', t.burst))
    FROM windlass_job_limit AS t
    WHERE t.job = {job}.id
) END

-- fragment: retried
-- A job that is retried by hand has its limits again.
INSERT INTO windlass_job_limit (job, phase, key, lim, rate, burst)
SELECT d.id, l.value ->> '$.phase', l.value ->> '$.key', l.value ->> '$.lim', l.value ->> '$.rate', l.value ->> '$.burst'
FROM windlass_job_done AS d
CROSS JOIN json_each(d.limits) AS l
WHERE d.id = :id
ON CONFLICT (job, phase) DO NOTHING; -- its place is still to be freed

-- fragment: revived
-- Children that come back with their parent have their limits again.
INSERT INTO windlass_job_limit (job, phase, key, lim, rate, burst)
SELECT d.id, l.value ->> '$.phase', l.value ->> '$.key', l.value ->> '$.lim', l.value ->> '$.rate', l.value ->> '$.burst'
FROM json_each(:children) AS g
CROSS JOIN windlass_job_done AS d ON d.id = g.value ->> '$.id'
CROSS JOIN json_each(d.limits) AS l
WHERE d.state = 'cancelled'
    AND d.error ->> '$.code' = 'parent_not_completed';

-- fragment: placed_jobs
-- The jobs of the :gates that have limits there; those that got a place just now are admitted and still at their gate.
json_each(:gates) AS w
CROSS JOIN windlass_job_limit AS t ON t.phase = w.value ->> '$.phase' AND t.key = w.value ->> '$.key'
CROSS JOIN windlass_job_later AS l ON l.id = t.job
