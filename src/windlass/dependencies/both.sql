-- Jobs that wait for jobs: the verbs with one text for both databases. The PostgreSQL file describes the protocol and the locks.

-- name: enqueue.edges
-- Inserts edges.
INSERT INTO windlass.job_dep (parent, child, policy)
SELECT g.parent, g.child, g.policy
FROM {{given(:edges, g, parent uuid, child uuid, policy text)}};

-- name: link.own
-- Children whose parents were all stored by the same call wait for them at once: these parents are flagged already, and no session sees them yet.
UPDATE windlass.job_later AS l
SET reason = 'waiting'
WHERE {{one_of(l.id, :ids::uuid[])}};

-- name: settle.left
-- Which of these jobs have ended, and have edges left.
SELECT s.parent
FROM windlass.settling AS s
WHERE {{one_of(s.parent, :ids::uuid[])}};

-- name: retry.edges
-- Parents that live again are open again for the children that were left waiting and for those that were cancelled because of a
-- parent, even if another retry revives these; returns the children. Edges of children that ran are not touched; for children that wait and
-- that any end of the parent satisfies, see retry.reopen.
UPDATE windlass.job_dep AS d
SET parent_state = NULL,
    parent_ended_at = NULL
WHERE {{one_of(d.parent, :ids::uuid[])}}
    AND d.parent_state <> 'completed'
    AND (
        EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = d.child AND l.reason = 'waiting' OFFSET 0)
        OR EXISTS (
            SELECT 1 FROM windlass.job_done AS e
            WHERE e.id = d.child
                AND e.state || '' = 'cancelled'
                AND e.error ->> 'code' = 'parent_not_completed'
            OFFSET 0
        )
    )
RETURNING child;

-- name: dependencies
-- What a job waits for or was made of (as child), and the jobs that wait for it or were made of it (as parent).
SELECT d.parent, d.child, d.policy, d.parent_state, NULL::text AS rule
FROM windlass.job_dep AS d
WHERE d.child = :id::uuid
UNION ALL
SELECT d.parent, d.child, d.policy, d.parent_state, NULL
FROM windlass.job_dep AS d
WHERE d.parent = :id::uuid
{{further_edges}};

-- name: parents.page
-- A page of the edges of a child, in the order of the parents' ids.
SELECT d.parent, d.parent_state, d.parent_ended_at
FROM windlass.job_dep AS d
WHERE d.child = :child::uuid
    AND d.parent > :after::uuid
ORDER BY d.parent
LIMIT :limit;

-- name: parents.newest
-- The parents of a child before a job, newest first.
SELECT d.parent
FROM windlass.job_dep AS d
WHERE {{in_group(d.child, d.parent, :child::uuid, :before::uuid)}}
ORDER BY {{newest_of(d.child, d.parent)}}
LIMIT :limit::bigint;

-- name: parents.count
-- How many parents a child has, for each way in which they ended; NULL for those that are still waited for.
SELECT d.parent_state, count(*)
FROM windlass.job_dep AS d
WHERE d.child = :child::uuid
GROUP BY d.parent_state;

-- name: parents.live
-- Those of these jobs that have not ended, with their states.
SELECT j.id, j.kind, CASE WHEN j.token IS NULL THEN 'queued' ELSE 'processing' END AS state
FROM windlass.job AS j
WHERE {{one_of(j.id, :ids::uuid[])}}
UNION ALL
SELECT l.id, l.kind,
    CASE WHEN l.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN l.reason = 'inbox' THEN 'queued' ELSE 'waiting' END
FROM windlass.job_later AS l
WHERE {{one_of(l.id, :ids::uuid[])}};

-- name: parents.open
-- The jobs that a child still waits for, those that the actor may see: jobs that have not ended, and jobs that did not complete and have
-- to be retried. The first thousand are searched.
SELECT o.id, o.parent_state
FROM (
    SELECT d.parent AS id, d.parent_state
    FROM windlass.job_dep AS d
    WHERE d.child = :child::uuid
        AND (
            d.parent_state IS NULL
            OR (d.parent_state <> 'completed' AND d.policy = 'wait')
        )
    LIMIT 1000
) AS o
WHERE TRUE -- belt: the slot begins with AND
    {{in_scope(o)}}
LIMIT :limit;
-- name: prune.edges
-- Removes consumed edges of parents and children that are gone.
DELETE FROM windlass.job_dep AS e
WHERE e.parent_state IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = e.child)
    AND NOT EXISTS (SELECT 1 FROM windlass.job AS j WHERE j.id = e.child)
    AND NOT EXISTS (SELECT 1 FROM windlass.job_done AS d WHERE d.id = e.child);

-- fragment: sought(job)
-- A search may ask for the members of batches, by their summary jobs.
AND (:batches::uuid[] IS NULL OR {{is_member({job}, :batches::uuid[])}})
AND (:not_batches::uuid[] IS NULL OR NOT {{is_member({job}, :not_batches::uuid[])}}) -- belt: without a list there is nothing to find

-- fragment: is_member(job, list)
-- Whether one of these jobs waits or waited for a job.
EXISTS (
    SELECT 1
    FROM windlass.job_dep AS m
    WHERE m.parent = {job}.id
        AND {{one_of(m.child, {list})}}
    OFFSET 0
)

-- column: agenda.unlinked
-- Whether there are children to link.
EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.reason = 'unlinked')

-- column: agenda.settling
-- Whether there are ended parents whose children are still to be settled.
EXISTS (SELECT 1 FROM windlass.settling)

-- column: view.parents(job)
-- How many jobs a job that waits for others has waited for from the beginning.
CASE WHEN {job}.reason IN ('waiting', 'unlinked') THEN (SELECT count(*) FROM windlass.job_dep AS d WHERE d.child = {job}.id) END

-- fragment: further_edges
-- Edges of other features, as further SELECTs: "UNION ALL SELECT ...".

-- fragment: revived_flags(job)
-- A job that is retried has dependents where edges name it as parent.
| CASE WHEN EXISTS (SELECT 1 FROM windlass.job_dep AS e WHERE e.parent = {job}.id OFFSET 0) THEN {DEPENDENTS} ELSE 0 END

-- fragment: is_readable(edge)
-- Whether the child of an edge has not ended: it waits for the parent, or may still read what the parent left.
(
    EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = {edge}.child OFFSET 0)
    OR EXISTS (SELECT 1 FROM windlass.job AS j WHERE j.id = {edge}.child OFFSET 0)
)

-- fragment: kept(job)
-- A job is not pruned while a child waits for it or may read its result.
AND NOT EXISTS (
    SELECT 1 FROM windlass.job_dep AS e
    WHERE e.parent = {job}.id
        AND {{is_readable(e)}}
    OFFSET 0
)

-- name: relations.parents
-- The edges that lead to these jobs: what they wait or waited for, and what they were made of.
SELECT d.parent, d.child
FROM windlass.job_dep AS d
WHERE {{one_of(d.child, :ids::uuid[])}}
{{further_parents}}
LIMIT :limit;

-- name: relations.children
-- The edges that leave these jobs: what waits or waited for them, and what was made of them.
SELECT d.parent, d.child
FROM windlass.job_dep AS d
WHERE {{one_of(d.parent, :ids::uuid[])}}
{{further_children}}
LIMIT :limit;

-- name: relations.jobs
-- Kinds and states of those of these jobs that the actor may see.
SELECT j.id, j.kind, CASE WHEN j.token IS NULL THEN 'queued' ELSE 'processing' END AS state
FROM windlass.job AS j
WHERE {{one_of(j.id, :ids::uuid[])}}
    {{in_scope(j)}}
UNION ALL
SELECT l.id, l.kind,
    CASE WHEN l.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN l.reason = 'inbox' THEN 'queued' ELSE 'waiting' END
FROM windlass.job_later AS l
WHERE {{one_of(l.id, :ids::uuid[])}}
    {{in_scope(l)}}
UNION ALL
SELECT e.id, e.kind, e.state
FROM windlass.job_done AS e
WHERE {{one_of(e.id, :ids::uuid[])}}
    {{in_scope(e)}};

-- fragment: further_parents
-- Edges of other features that lead to these jobs, as further SELECTs: "UNION ALL SELECT ...".

-- fragment: further_children
-- The same for edges that leave these jobs.
