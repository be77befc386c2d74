-- Principals of jobs; the PostgreSQL file describes the reasons. With one writer at a time nothing is locked.

-- name: enqueue.principals
-- Stores the principals of jobs that are inserted by the same transaction.
INSERT INTO windlass_principal (job, alive_at, expires_at, key_id, token, claims)
SELECT g.value ->> '$.job', :now, g.value ->> '$.expires_at', g.value ->> '$.key_id', g.value ->> '$.token', g.value -> '$.claims'
FROM json_each(:principals) AS g;

-- name: principal.get
-- The principal of a job, whether its time is over, and the current time.
SELECT p.claims, COALESCE(p.expires_at <= :now, FALSE) AS is_expired, :now AS at, p.key_id, p.token
FROM windlass_principal AS p
WHERE p.job = :id;

-- name: principal.list
-- The principals of these jobs, those that have one.
SELECT p.job, p.claims
FROM windlass_principal AS p
WHERE p.job IN (SELECT g.value FROM json_each(:ids) AS g);

-- name: erase.due
-- Whether there is any principal whose job may have ended before a time.
SELECT 1
FROM windlass_principal AS p
WHERE p.alive_at < :before
LIMIT 1;

-- name: erase.pick
-- Principals whose jobs may have ended before a time, longest ago first.
SELECT p.job
FROM windlass_principal AS p
WHERE p.alive_at < :before
ORDER BY p.alive_at
LIMIT :limit;

-- name: erase.ended
-- When these jobs ended, those that did.
SELECT d.id, d.finished_at
FROM windlass_job_done AS d
WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g);

-- name: erase.living
-- Notes that these jobs live, those that do, and returns them.
UPDATE windlass_principal
SET alive_at = :now
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g)
    AND (
        EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = windlass_principal.job)
        OR EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = windlass_principal.job)
    )
RETURNING job;

-- name: erase.note
-- Notes when jobs ended, whose principals stay for now.
UPDATE windlass_principal
SET alive_at = g.value ->> '$.ended_at'
FROM json_each(:ended) AS g
WHERE windlass_principal.job = g.value ->> '$.job';

-- name: erase
-- Removes principals, with the tokens kept beside them.
DELETE FROM windlass_principal
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);

-- fragment: pruned
-- The principal of a pruned job goes with it.
DELETE FROM windlass_principal
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
