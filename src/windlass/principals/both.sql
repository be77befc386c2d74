-- Principals of jobs. A principal is inserted with its job, read by its handler and by jobs that inherit it, and erased some time after the
-- job's end. It is never changed: no job gets more rights by waiting.

-- name: enqueue.principals
-- Stores the principals of jobs that are inserted by the same transaction.
INSERT INTO windlass.principal (job, alive_at, expires_at, key_id, token, claims)
SELECT g.job, {{now}}, g.expires_at, g.key_id, g.token, g.claims
FROM {{given(:principals, g, job uuid, expires_at timestamptz, key_id text, token text, claims jsonb)}};

-- name: principal.get
-- The principal of a job, whether its time is over by this database's clock, and that clock.
SELECT p.claims::text AS claims, COALESCE(p.expires_at <= c.at, FALSE) AS is_expired, c.at, p.key_id, p.token
FROM windlass.principal AS p
CROSS JOIN (SELECT {{now}} AS at) AS c
WHERE p.job = :id::uuid;

-- name: principal.list
-- The principals of these jobs, those that have one.
SELECT p.job::text AS job, p.claims::text AS claims
FROM windlass.principal AS p
WHERE {{one_of(p.job, :ids::uuid[])}};

-- name: principal.sees
-- Whether an actor may see a job, whatever became of the job.
SELECT 1
FROM (SELECT :id::uuid AS id) AS j
WHERE TRUE -- belt: the slot begins with AND
    {{in_scope(j)}};

-- name: principal.of_subject
-- Jobs of a subject before a job, newest first, with the issuer and the tenant of the subject.
SELECT p.job, p.claims ->> 'issuer', p.claims ->> 'tenant'
FROM windlass.principal AS p
WHERE {{in_group((p.claims ->> 'subject'), p.job, :subject::text, :before::uuid)}}
ORDER BY {{newest_of((p.claims ->> 'subject'), p.job)}}
LIMIT :limit::bigint;

-- name: principal.of_tenant
-- Jobs of a tenant before a job, newest first.
SELECT p.job
FROM windlass.principal AS p
WHERE {{in_group((p.claims ->> 'tenant'), p.job, :tenant::text, :before::uuid)}}
    AND p.claims ->> 'tenant' IS NOT NULL -- belt: implied; the planner needs it to prove the partial index
ORDER BY {{newest_of((p.claims ->> 'tenant'), p.job)}}
LIMIT :limit::bigint;

-- fragment: in_scope(job)
-- An actor sees all jobs, those of its tenant, or those that it asked for itself.
AND (
    :sees::text = 'all'
    OR EXISTS (
        SELECT 1
        FROM windlass.principal AS who
        WHERE who.job = {job}.id
            AND who.claims ->> 'tenant' {{is_same}} :tenant::text
            AND (
                :sees::text = 'tenant'
                OR (who.claims ->> 'subject' = :subject::text AND who.claims ->> 'issuer' {{is_same}} :issuer::text)
            )
        OFFSET 0
    )
)

-- fragment: sought(job)
-- A search may ask for jobs of subjects and of tenants.
AND (:subjects::text[] IS NULL OR {{is_of({job}, 'subject', :subjects::text[])}})
AND (:not_subjects::text[] IS NULL OR NOT {{is_of({job}, 'subject', :not_subjects::text[])}}) -- belt: without a list there is nothing to find
AND (:tenants::text[] IS NULL OR {{is_of({job}, 'tenant', :tenants::text[])}})
AND (:not_tenants::text[] IS NULL OR NOT {{is_of({job}, 'tenant', :not_tenants::text[])}}) -- belt: without a list there is nothing to find

-- fragment: is_of(job, claim, list)
-- Whether a claim of the principal of a job is one of a list.
EXISTS (
    SELECT 1
    FROM windlass.principal AS who
    WHERE who.job = {job}.id
        AND {{one_of(who.claims ->> {claim}, {list})}}
    OFFSET 0
)

-- name: erase.due
-- Whether there is any principal whose job may have ended before a time.
SELECT 1
FROM windlass.principal AS p
WHERE p.alive_at < :before::timestamptz
LIMIT 1;

-- name: erase.pick
-- Principals whose jobs may have ended before a time, longest ago first. Locked, so that each is checked by one instance.
SELECT p.job
FROM windlass.principal AS p
WHERE p.alive_at < :before::timestamptz
ORDER BY p.alive_at
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: erase.ended
-- When these jobs ended, those that did. The lock keeps a retry by hand from reviving one whose principal is about to be erased; one
-- that is being retried is left out.
SELECT d.id, d.finished_at
FROM windlass.job_done AS d
WHERE {{one_of(d.id, :ids::uuid[])}}
FOR KEY SHARE SKIP LOCKED;

-- name: erase.living
-- Notes that these jobs live, those that do, and returns them.
UPDATE windlass.principal AS p
SET alive_at = {{now}}
WHERE {{one_of(p.job, :ids::uuid[])}}
    AND (
        EXISTS (SELECT 1 FROM windlass.job AS j WHERE j.id = p.job OFFSET 0)
        OR EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = p.job OFFSET 0)
    )
RETURNING job;

-- name: erase.note
-- Notes when jobs ended, whose principals stay for now.
UPDATE windlass.principal AS p
SET alive_at = g.ended_at
FROM {{given(:ended, g, job uuid, ended_at timestamptz)}}
WHERE {{found_by(p.job, g.job)}};

-- name: erase
-- Removes principals, with the tokens kept beside them.
DELETE FROM windlass.principal AS p
WHERE {{one_of(p.job, :ids::uuid[])}};
