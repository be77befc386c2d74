-- Jobs that wait for jobs; the PostgreSQL file describes the protocol. With one writer at a time no parent can end between
-- two statements here, so nothing is left out and linking always succeeds at once.

-- name: link.pick
-- Children whose edges are not linked yet, with all their edges.
SELECT d.child, d.parent, d.policy, d.parent_state
FROM windlass_job_dep AS d
WHERE d.child IN (SELECT l.id FROM windlass_job_later AS l WHERE l.reason = 'unlinked' AND l.id > :after ORDER BY l.id LIMIT :limit)
ORDER BY d.child, d.parent;

-- name: link.due
-- Whether any child waits to be linked: a read, so that an idle instance never writes.
SELECT 1
FROM windlass_job_later AS l
WHERE l.reason = 'unlinked'
LIMIT 1;

-- name: link.flag_live
-- Flags queued and processing parents; returns those that carry the flag now, and no phases: there is one writer, so no claim passes
-- over a row that is locked.
UPDATE windlass_job
SET flags = flags | {DEPENDENTS}
WHERE id IN (SELECT g.value FROM json_each(:parents) AS g)
RETURNING id, NULL AS phase;

-- name: link.flag_later
-- Flags waiting and scheduled parents; returns those that carry the flag now.
UPDATE windlass_job_later
SET flags = flags | {DEPENDENTS}
WHERE id IN (SELECT g.value FROM json_each(:parents) AS g)
RETURNING id;

-- name: link.ended
-- Parents that ended already.
SELECT d.id, d.state, d.finished_at
FROM windlass_job_done AS d
WHERE d.id IN (SELECT g.value FROM json_each(:parents) AS g);

-- name: link.mark
-- Notes the end of parents on the edges of children that are being linked; one whose time is not known any more ends now.
UPDATE windlass_job_dep
SET parent_state = g.value ->> '$.state',
    parent_ended_at = COALESCE(g.value ->> '$.ended_at', :now)
FROM json_each(:edges) AS g
WHERE windlass_job_dep.parent = g.value ->> '$.parent'
    AND windlass_job_dep.child = g.value ->> '$.child';

-- name: link.done
-- Children whose edges are linked: from now on they wait for `pending` parents, or are due if there are none left.
INSERT INTO windlass_delta (phase, waiting, scheduled)
SELECT l.phase, -count(*), count(*)
FROM json_each(:children) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value ->> '$.id'
WHERE l.reason = 'unlinked'
    AND g.value ->> '$.pending' = 0
GROUP BY l.phase;
UPDATE windlass_job_later
SET reason = CASE WHEN g.value ->> '$.pending' > 0 THEN 'waiting' ELSE 'scheduled' END,
    pending = g.value ->> '$.pending'
FROM json_each(:children) AS g
WHERE windlass_job_later.id = g.value ->> '$.id'
    AND windlass_job_later.reason = 'unlinked';
SELECT l.id
FROM json_each(:children) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value ->> '$.id'
WHERE l.reason = 'scheduled';

-- name: settle.edges
-- Consumes open edges of ended parents, parent by parent and child by child, each parent's from the child `after` on, and at most :limit in
-- all; returns them. An edge is consumed once.
UPDATE windlass_job_dep
SET parent_state = o.state,
    parent_ended_at = :now
FROM (
    SELECT d.parent, d.child, g.value ->> '$.state' AS state
    FROM json_each(:ended) AS g
    CROSS JOIN windlass_job_dep AS d ON d.parent = g.value ->> '$.id'
    WHERE d.child > g.value ->> '$.after' -- belt: those up to it are consumed; saves the walk past them
        AND d.parent_state IS NULL
    ORDER BY d.parent, d.child
    LIMIT :limit
) AS o
WHERE windlass_job_dep.parent = o.parent
    AND windlass_job_dep.child = o.child
RETURNING parent, child, policy, parent_state;

-- name: settle.leave
-- Leaves the rest of the edges of ended parents to upkeep.
INSERT INTO windlass_settling (parent, after, state)
SELECT g.value ->> '$.id', g.value ->> '$.after', g.value ->> '$.state'
FROM json_each(:ended) AS g
WHERE TRUE -- belt: without it ON CONFLICT would be taken for a join
ON CONFLICT (parent) DO NOTHING;

-- name: settle.take
-- Takes ended parents whose edges are left, with ids between two.
DELETE FROM windlass_settling
WHERE parent IN (
        SELECT s.parent
        FROM windlass_settling AS s
        WHERE s.parent >= :first
            AND s.parent <= :last
        ORDER BY s.parent
        LIMIT :limit -- belt: each of them has an edge at least, so that no page needs more
    )
RETURNING parent, state, after;

-- name: settle.lock
-- Nothing to lock: there is one writer at a time.
SELECT NULL AS id
WHERE FALSE;

-- name: settle.count
-- Counts down waiting children; those that reach zero are due.
INSERT INTO windlass_delta (phase, waiting, scheduled)
SELECT l.phase, -count(*), count(*)
FROM json_each(:children) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value ->> '$.id'
WHERE l.reason = 'waiting'
    AND l.pending = g.value ->> '$.satisfied'
GROUP BY l.phase;
UPDATE windlass_job_later
SET pending = pending - (g.value ->> '$.satisfied'),
    reason = CASE WHEN pending - (g.value ->> '$.satisfied') > 0 THEN 'waiting' ELSE 'scheduled' END
FROM json_each(:children) AS g
WHERE windlass_job_later.id = g.value ->> '$.id'
    AND windlass_job_later.reason = 'waiting';
SELECT l.id
FROM json_each(:children) AS g
CROSS JOIN windlass_job_later AS l ON l.id = g.value ->> '$.id'
WHERE l.reason = 'scheduled';

-- name: settle.promote
-- Moves given children that are due into their queues; one whose run_at is still to come stays, and one with a limit is parked.
{{to_queue(l, :now)}}
FROM windlass_job_later AS l
WHERE l.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND l.reason = 'scheduled'
    AND l.run_at <= :now
    AND l.flags & {LIMIT} = 0
ORDER BY l.id;
INSERT INTO windlass_delta (phase, waiting, scheduled, queued)
SELECT l.phase, sum(l.flags & {LIMIT} <> 0), -count(*), sum(l.flags & {LIMIT} = 0)
FROM windlass_job_later AS l
WHERE l.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND l.reason = 'scheduled'
    AND l.run_at <= :now
GROUP BY l.phase;
DELETE FROM windlass_job_later
WHERE id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND reason = 'scheduled'
    AND run_at <= :now
    AND flags & {LIMIT} = 0;
UPDATE windlass_job_later
SET reason = 'limited'
WHERE id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND reason = 'scheduled'
    AND run_at <= :now; -- what is left of them has a limit

-- name: retry.reopen
-- Parents that live again are waited for again by children that any end satisfies (policy run) and that still wait for another parent: the
-- edges are open again, and the children count one parent more each.
UPDATE windlass_job_later
SET pending = pending + g.edges
FROM (
    SELECT d.child, count(*) AS edges
    FROM windlass_job_dep AS d
    WHERE d.parent IN (SELECT g.value FROM json_each(:ids) AS g)
        AND d.policy = 'run'
        AND d.parent_state IS NOT NULL -- belt: the end of a parent consumed the edges of all children that wait
    GROUP BY d.child
) AS g
WHERE windlass_job_later.id = g.child
    AND windlass_job_later.reason = 'waiting';
UPDATE windlass_job_dep
SET parent_state = NULL,
    parent_ended_at = NULL
WHERE parent IN (SELECT g.value FROM json_each(:ids) AS g)
    AND policy = 'run'
    AND EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = windlass_job_dep.child AND l.reason = 'waiting');

-- name: parents.read
-- Ended jobs by their ids, in the order given, and as many as :bytes of results and errors allow, one at least; those that are not found
-- have no kind.
WITH RECURSIVE given AS MATERIALIZED (
    SELECT g.key AS place, g.value AS id
    FROM json_each(:ids) AS g
), walked (place, bytes) AS (
    SELECT 0, 0
    UNION ALL
    SELECT w.place + 1, w.bytes + COALESCE((
            SELECT COALESCE(length(CAST(d.result AS BLOB)), 0) + COALESCE(length(CAST(d.error AS BLOB)), 0)
            FROM windlass_job_done AS d
            WHERE d.id = g.id
        ), 0)
    FROM walked AS w
    CROSS JOIN given AS g ON g.place = w.place
    WHERE w.bytes < :bytes
)
SELECT g.id, d.kind, d.state, d.result, d.error, d.finished_at
FROM walked AS w
CROSS JOIN given AS g ON g.place = w.place - 1
LEFT JOIN windlass_job_done AS d ON d.id = g.id
ORDER BY w.place;

-- name: revive.edges
-- What the edges of these children say now.
SELECT d.child, d.policy, d.parent_state
FROM windlass_job_dep AS d
WHERE d.child IN (SELECT g.value FROM json_each(:ids) AS g)
ORDER BY d.child, d.parent;

-- name: revive.take
-- Brings children that were cancelled because of a parent back to wait for `pending` parents, as a new generation.
INSERT INTO windlass_job_later (id, created_at, run_at, pending, lane, generation, max_attempts, flags, reason, kind, phase,
    correlation, args)
SELECT d.id, d.created_at, :now, g.value ->> '$.pending', d.lane, d.generation + 1, d.max_attempts,
    (d.flags & {SURVIVES})
        {{new_flags(d.kind)}}
        {{revived_flags(d)}},
    'waiting', d.kind, d.phase, d.correlation, d.args
FROM json_each(:children) AS g
CROSS JOIN windlass_job_done AS d ON d.id = g.value ->> '$.id'
WHERE d.state = 'cancelled'
    AND d.error ->> '$.code' = 'parent_not_completed';
INSERT INTO windlass_delta (phase, waiting, cancelled)
SELECT d.phase, count(*), -count(*)
FROM json_each(:children) AS g
CROSS JOIN windlass_job_done AS d ON d.id = g.value ->> '$.id'
WHERE d.state = 'cancelled'
    AND d.error ->> '$.code' = 'parent_not_completed'
GROUP BY d.phase;
{{revived}}
DELETE FROM windlass_job_done
WHERE id IN (SELECT g.value ->> '$.id' FROM json_each(:children) AS g)
    AND state = 'cancelled'
    AND error ->> '$.code' = 'parent_not_completed'
RETURNING id, kind, flags, args, key;

-- fragment: cancel_details(job)
-- A job that ends because of a parent names the first parent that did not complete; the edge was marked before, in the same transaction.
(
            SELECT json_object(
                'message', 'job ' || d.parent || ', which this job waited for, did not complete: ' || d.parent_state,
                'details', json_object('parent', d.parent, 'parent_state', d.parent_state)
            )
            FROM windlass_job_dep AS d
            WHERE d.child = {job}.id
                AND d.policy = 'cancel'
                AND d.parent_state <> 'completed'
                AND :error ->> '$.code' = 'parent_not_completed'
            ORDER BY d.parent_ended_at, d.parent
            LIMIT 1
        ),

-- fragment: pruned
-- The edges of a pruned child go with it.
DELETE FROM windlass_job_dep
WHERE child IN (SELECT g.value FROM json_each(:ids) AS g);

-- name: delete.readers
-- How many children of each of these jobs have not ended: they wait for the job, or may still read what it left.
SELECT e.parent, count(*)
FROM windlass_job_dep AS e
WHERE {{one_of(e.parent, :ids)}}
    AND {{is_readable(e)}}
GROUP BY e.parent;
