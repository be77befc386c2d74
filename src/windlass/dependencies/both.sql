-- Jobs that wait for jobs: the verbs with one text for both databases. The PostgreSQL file describes the protocol and the locks.

-- name: enqueue.edges
-- Inserts edges.
INSERT INTO windlass.job_dep (parent, child, policy)
SELECT g.parent, g.child, g.policy
FROM {{given(:edges, g, parent uuid, child uuid, policy text)}};

-- name: link.ended
-- Parents that ended already; a statement of its own, so that it sees every parent that ended before the flags were set. The lock
-- keeps a retry by hand from reviving the parent before its end is noted on the edges.
SELECT d.id, d.state, d.finished_at
FROM windlass.job_done AS d
WHERE {{one_of(d.id, :parents::uuid[])}}
FOR KEY SHARE SKIP LOCKED;

-- name: settle.left
-- Which of these jobs have ended, and have edges left.
SELECT s.parent
FROM windlass.settling AS s
WHERE {{one_of(s.parent, :ids::uuid[])}};

-- name: retry.edges
-- Parents that live again are open again for the children that were left waiting and for those that were cancelled because of a
-- parent, even if another retry revives these; returns the children. Edges of children that ran, or that were satisfied, are not touched.
UPDATE windlass.job_dep AS d
SET parent_state = NULL,
    parent_ended_at = NULL
WHERE {{one_of(d.parent, :ids::uuid[])}}
    AND d.parent_state <> 'completed'
    AND d.policy <> 'run'
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

-- name: prune.edges
-- Removes consumed edges of parents and children that are gone.
DELETE FROM windlass.job_dep AS e
WHERE e.parent_state IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = e.child)
    AND NOT EXISTS (SELECT 1 FROM windlass.job AS j WHERE j.id = e.child)
    AND NOT EXISTS (SELECT 1 FROM windlass.job_done AS d WHERE d.id = e.child);

-- column: agenda.unlinked
-- Whether there are children to link.
EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.reason = 'unlinked')

-- column: agenda.settling
-- Whether there are ended parents whose children are still to be settled.
EXISTS (SELECT 1 FROM windlass.settling)

-- fragment: further_edges
-- Edges of other features, as further SELECTs: "UNION ALL SELECT ...".

-- fragment: revived_flags(job)
-- A job that is retried has dependents where edges name it as parent.
| CASE WHEN EXISTS (SELECT 1 FROM windlass.job_dep AS e WHERE e.parent = {job}.id OFFSET 0) THEN {DEPENDENTS} ELSE 0 END

-- fragment: is_waited_for(edge)
-- Whether the child of an edge waits for the end of the parent, or for its retry.
(
    {edge}.parent_state IS NULL
    OR (
        {edge}.policy = 'wait'
        AND {edge}.parent_state <> 'completed'
        AND EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = {edge}.child AND l.reason IN ('waiting', 'unlinked'))
    )
)

-- fragment: kept(job)
-- A job is not pruned while a child waits for it.
AND NOT EXISTS (
    SELECT 1 FROM windlass.job_dep AS e
    WHERE e.parent = {job}.id
        AND {{is_waited_for(e)}}
    OFFSET 0
)
