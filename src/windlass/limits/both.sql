-- Flow control: the verbs with one text for both databases. The PostgreSQL file describes the protocol and the locks.

-- name: flow.all
-- What every phase with flow control allows.
SELECT f.phase, f.lim, f.key, f.rate, f.burst, f.age
FROM windlass.flow AS f
ORDER BY f.phase;

-- name: flow.put
-- Notes what phases allow from now on, where it is not what is stored; returns those that changed. A bucket keeps what it holds.
INSERT INTO windlass.flow AS f (phase, told_at, filled_at, tokens, rate, age, lim, burst, key)
SELECT g.phase, c.at, c.at, COALESCE(g.burst, 0), g.rate, g.age, g.lim, g.burst, g.key
FROM {{given(:phases, g, phase text, rate double precision, age double precision, lim integer, burst integer, key text)}}
CROSS JOIN (SELECT {{now}} AS at) AS c
ORDER BY g.phase
ON CONFLICT (phase) DO UPDATE
SET told_at = excluded.told_at,
    filled_at = CASE WHEN f.rate IS NULL THEN excluded.filled_at ELSE f.filled_at END,
    tokens = CASE WHEN f.rate IS NULL THEN excluded.tokens ELSE f.tokens END,
    rate = excluded.rate,
    age = excluded.age,
    lim = excluded.lim,
    burst = excluded.burst,
    key = excluded.key
WHERE (f.rate, f.age, f.lim, f.burst, f.key) {{is_not}} (excluded.rate, excluded.age, excluded.lim, excluded.burst, excluded.key)
RETURNING phase;

-- name: enqueue.limits
-- Inserts the limits of new jobs.
INSERT INTO windlass.job_limit (job, phase, key, lim, rate, burst)
SELECT g.job, g.phase, g.key, g.lim, g.rate, g.burst
FROM {{given(:limits, g, job uuid, phase text, key text, lim integer, rate double precision, burst integer)}};

-- name: limits.keys
-- The limits of a job, with their keys.
SELECT t.phase, t.key
FROM windlass.job_limit AS t
WHERE t.job = :id::uuid
ORDER BY t.phase;

-- name: limits.rekey
-- Gives a job another key in a phase where it has no place and stands at no gate.
UPDATE windlass.job_limit AS t
SET key = :key
WHERE t.job = :id::uuid
    AND t.phase = :phase;

-- name: limits.forget
-- Removes the limits of jobs that have no place.
DELETE FROM windlass.job_limit AS t
WHERE {{one_of(t.job, :ids::uuid[])}};

-- name: gate.pick
-- Locks limited jobs that are at no gate yet, a page of them in id order, and returns what limits they have in their phase.
SELECT l.id, l.phase, t.key, t.lim, t.rate, t.burst, f.phase IS NOT NULL AS is_known
FROM windlass.job_later AS l
LEFT JOIN windlass.job_limit AS t ON {{found_by(t.job, l.id)}} AND t.phase = l.phase
LEFT JOIN windlass.flow AS f ON {{found_by(f.phase, l.phase)}}
WHERE l.reason = 'limited'
    AND l.gate IS NULL
    AND t.gone IS NOT TRUE
    AND l.id > :after::uuid
ORDER BY l.id
LIMIT :limit
FOR UPDATE OF l SKIP LOCKED;

-- name: gate.assign
-- Puts jobs at their gates; those without one go on to wait for their phase's rate.
UPDATE windlass.job_later AS l
SET gate = g.gate,
    reason = CASE WHEN g.gate IS NULL THEN 'paced' ELSE 'limited' END
FROM {{given(:jobs, g, id uuid, gate text)}}
WHERE {{found_by(l.id, g.id)}};

-- name: pace.phases
-- Phases where jobs wait for the rate, those that are paused left out.
SELECT f.phase
FROM windlass.flow AS f
WHERE EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.reason = 'paced' AND l.phase = f.phase OFFSET 0)
    AND NOT {{is_paused(f.phase, {{now_once}})}}
ORDER BY f.phase;

-- name: pace.pick
-- Locks the next jobs of a phase that wait for its rate, highest priority first, then oldest first.
SELECT l.id
FROM windlass.job_later AS l
WHERE l.reason = 'paced'
    AND l.phase = :phase
ORDER BY l.lane, l.run_at, l.id
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: pace.spend
-- Notes what a phase's bucket held at a time.
UPDATE windlass.flow AS f
SET tokens = :tokens::double precision,
    filled_at = :at::timestamptz
WHERE f.phase = :phase;

-- name: gates
-- The gates of a phase (of all, without one): places, jobs that have one, jobs that wait.
SELECT g.phase, g.key, f.lim, g.admitted,
    (SELECT count(*) FROM windlass.job_later AS l WHERE l.reason = 'limited' AND l.phase = g.phase AND l.gate = g.key) AS waiting
FROM windlass.gate AS g
LEFT JOIN windlass.flow AS f ON f.phase = g.phase
WHERE (:phase::text IS NULL OR g.phase = :phase)
ORDER BY g.phase, g.key
LIMIT :limit;

-- name: gates.room
-- Gates with a free place and a job that waits for one: the safety net for jobs that should have been admitted.
SELECT g.phase, g.key
FROM windlass.gate AS g
LEFT JOIN windlass.flow AS f ON f.phase = g.phase
WHERE (
        f.lim IS NULL
        OR g.admitted < f.lim
    )
    AND EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.reason = 'limited' AND l.phase = g.phase AND l.gate = g.key)
ORDER BY g.phase, g.key
LIMIT :limit;

-- name: gates.idle
-- Locks gates that were not used for an hour.
SELECT g.phase, g.key
FROM windlass.gate AS g
WHERE g.admitted = 0
    AND g.used_at < {{now_once}} - {{seconds(3600)}}
ORDER BY g.phase, g.key
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: limits.in_phase
-- The limit of a job in one phase, what the phase allows now, and how many jobs have a place at its gate.
SELECT t.key, t.admitted, f.lim, f.rate, f.burst, f.tokens, f.filled_at, g.admitted AS taken
FROM windlass.job_limit AS t
LEFT JOIN windlass.flow AS f ON {{found_by(f.phase, t.phase)}}
LEFT JOIN windlass.gate AS g ON {{found_by(g.phase, t.phase)}} AND g.key = t.key
WHERE t.job = :id::uuid
    AND t.phase = :phase::text;

-- name: limits.holders
-- Jobs that have a place at a gate, those that the actor may see; the first thousand are searched.
SELECT h.id
FROM (
    SELECT t.job AS id
    FROM windlass.job_limit AS t
    WHERE t.phase = :phase::text
        AND t.key = :key::text
        AND t.admitted
    LIMIT 1000
) AS h
WHERE TRUE -- belt: the slot begins with AND
    {{in_scope(h)}}
LIMIT :limit;

-- name: limits.before
-- How many jobs wait at a gate before a job, counted up to :limit.
SELECT count(*)
FROM (
    SELECT 1
    FROM windlass.job_later AS l
    WHERE l.reason = 'limited' -- belt: only limited jobs stand at a gate; the planner needs it for the partial index
        AND l.phase = :phase::text
        AND l.gate = :gate::text
        AND (l.lane, l.run_at, l.id) < (:lane::smallint, :at::timestamptz, :id::uuid)
    LIMIT :limit
) AS w;

-- name: limits.paced_before
-- How many jobs wait for the rate of a phase before a job, counted up to :limit.
SELECT count(*)
FROM (
    SELECT 1
    FROM windlass.job_later AS l
    WHERE l.reason = 'paced'
        AND l.phase = :phase::text
        AND (l.lane, l.run_at, l.id) < (:lane::smallint, :at::timestamptz, :id::uuid)
    LIMIT :limit
) AS w;

-- column: agenda.flowing
-- Whether any phase has flow control.
EXISTS (SELECT 1 FROM windlass.flow)
