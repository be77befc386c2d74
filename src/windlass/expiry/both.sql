-- Expiry: until when a job must have begun. A row lives as long as its job has not begun; the flag EXPIRES of the job's row says the same.

-- name: enqueue.expiries
-- Stores until when new jobs must have begun. A duration counts from now; jobs of one call have one moment.
INSERT INTO windlass.expiry (job, expires_at)
SELECT g.job, COALESCE(g.expires_at, {{now_once}} + {{seconds(g.lasts)}})
FROM {{given(:expiries, g, job uuid, expires_at timestamptz, lasts double precision)}};

-- name: expiry.due
-- One page of jobs whose time is over, longest over first, after a cursor. Locks nothing.
SELECT e.job, e.expires_at
FROM windlass.expiry AS e
WHERE e.expires_at <= {{now_once}}
    AND (e.expires_at, e.job) > (:after_at::timestamptz, :after_job::uuid)
ORDER BY e.expires_at, e.job
LIMIT :limit;

-- name: expiry.over
-- Which of these jobs, whose rows are locked, have a time that is over; a later request may have given one another time meanwhile.
SELECT e.job, e.expires_at
FROM windlass.expiry AS e
WHERE {{one_of(e.job, :ids::uuid[])}}
    AND (e.expires_at <= {{now_once}}) IS TRUE; -- no condition for the index of times: many more jobs may be due

-- name: expiry.forget
-- Removes the times of jobs that have begun or ended.
DELETE FROM windlass.expiry AS e
WHERE {{one_of(e.job, :ids::uuid[])}};

-- name: expiry.stale
-- Removes the times of those jobs that are not there any more or have begun: no verb leaves such a row, and one that other software left
-- must not be found due for ever.
DELETE FROM windlass.expiry AS e
WHERE {{one_of(e.job, :ids::uuid[])}}
    AND NOT EXISTS (SELECT 1 FROM windlass.job AS j WHERE j.id = e.job AND j.flags & {EXPIRES} <> 0 OFFSET 0)
    AND NOT EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = e.job AND l.flags & {EXPIRES} <> 0 OFFSET 0);

-- name: expiry.get
-- Until when a job must have begun.
SELECT e.expires_at
FROM windlass.expiry AS e
WHERE e.job = :id::uuid;
