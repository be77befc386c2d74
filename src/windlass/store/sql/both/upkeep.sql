-- Duties that every instance does a share of.

-- name: counts
-- Jobs per phase and state, without touching a job: tally plus what is not folded yet.
SELECT s.phase, sum(s.waiting)::bigint, sum(s.scheduled)::bigint, sum(s.queued)::bigint, sum(s.processing)::bigint,
    sum(s.completed)::bigint, sum(s.failed)::bigint, sum(s.cancelled)::bigint
FROM (
    SELECT * FROM windlass.tally
    UNION ALL
    SELECT * FROM windlass.delta
) AS s
GROUP BY s.phase
ORDER BY s.phase;

-- name: pause
-- Stops claims of a phase until it is resumed or the time comes.
INSERT INTO windlass.phase AS p (name, paused_at, paused_until, reason)
SELECT :phase, c.at, c.at + {{seconds(:seconds::double precision)}}, :reason
FROM (SELECT {{now}} AS at) AS c
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (name) DO UPDATE
SET paused_at = excluded.paused_at,
    paused_until = excluded.paused_until,
    reason = excluded.reason;

-- name: paused
-- Phases that are paused now.
SELECT p.name, p.paused_at, p.paused_until, p.reason
FROM windlass.phase AS p
WHERE {{lasts(p, {{now_once}})}}
ORDER BY p.name;

-- name: turn.take.due
-- Whether a turn is free, or the holder's own: a read, so that an instance that waits for its turn does not write.
SELECT 1
WHERE NOT EXISTS (
        SELECT 1
        FROM windlass.turn AS t
        WHERE t.name = :name
            AND t.holder <> :holder
            AND t.until > {{now_once}}
    );

-- name: turn.take
-- Gives a turn to a holder for some seconds, unless another holder has it; returns a row if it did.
INSERT INTO windlass.turn AS t (name, holder, until)
SELECT :name, :holder, c.at + {{seconds(:seconds::double precision)}}
FROM (SELECT {{now}} AS at) AS c
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder,
    until = excluded.until
WHERE t.holder = excluded.holder
    OR t.until <= {{now}}
RETURNING name;

-- name: prune.read
-- The whole jobs of a page, for the archive.
{{ended_jobs}}
WHERE {{one_of(d.id, :ids::uuid[])}}
ORDER BY d.id;

-- name: prune.attempts
-- The attempts of a page's jobs, for the archive.
SELECT a.job, a.generation, a.phase, a.attempt, a.outcome, a.started_at, a.ended_at, a.error, a.traceback, a.instance, a.processor
FROM windlass.attempt AS a
WHERE {{one_of(a.job, :ids::uuid[])}}
ORDER BY a.job, abs(a.token);

-- fragment: lasts(pause, at)
-- Whether a pause lasts at a time.
({pause}.paused_until IS NULL OR {pause}.paused_until > {at})

-- fragment: is_paused(phase, at)
-- Whether a phase is paused at a time.
EXISTS (SELECT 1 FROM windlass.phase AS p WHERE p.name = {phase} AND {{lasts(p, {at})}})
