-- Jobs that wait for jobs. Enqueue inserts child and edges unlinked; the linker flags living parents and counts ended
-- ones; a flagged parent's end reads its edges in a statement of its own, with a fresh snapshot. Counters go down on the
-- locked child row, each edge once.

-- name: link.pick
-- Locks children whose edges are not linked yet and returns all their edges.
WITH child AS MATERIALIZED (
    SELECT l.id
    FROM windlass.job_later AS l
    WHERE l.reason = 'unlinked'
        AND l.id > :after::uuid
    ORDER BY l.id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
SELECT d.child, d.parent, d.policy, d.parent_state
FROM child AS c
CROSS JOIN LATERAL (SELECT e.* FROM windlass.job_dep AS e WHERE e.child = c.id OFFSET 0) AS d
ORDER BY d.child, d.parent;

-- name: link.flag_live
-- Flags queued and processing parents, leaving out locked ones; returns those that carry the flag now, and the phase of each that is
-- queued: claims at the same moment pass over a row that is locked here, so they have to be notified to scan again.
WITH parent AS MATERIALIZED (
    SELECT j.id
    FROM (SELECT g.id FROM unnest(:parents::uuid[]) AS g (id) ORDER BY g.id) AS g
    CROSS JOIN LATERAL (SELECT l.id FROM windlass.job AS l WHERE l.id = g.id FOR NO KEY UPDATE SKIP LOCKED) AS j
)
UPDATE windlass.job AS j
SET flags = j.flags | {DEPENDENTS}
FROM parent AS p
WHERE j.id = ANY(ARRAY[p.id])
RETURNING j.id, CASE WHEN j.token IS NULL THEN j.phase END AS phase;

-- name: link.flag_later
-- Flags waiting and scheduled parents, leaving out locked ones; returns those that carry the flag now.
WITH parent AS MATERIALIZED (
    SELECT l.id
    FROM (SELECT g.id FROM unnest(:parents::uuid[]) AS g (id) ORDER BY g.id) AS g
    CROSS JOIN LATERAL (SELECT w.id FROM windlass.job_later AS w WHERE w.id = g.id FOR NO KEY UPDATE SKIP LOCKED) AS l
)
UPDATE windlass.job_later AS l
SET flags = l.flags | {DEPENDENTS}
FROM parent AS p
WHERE l.id = ANY(ARRAY[p.id])
RETURNING l.id;

-- name: link.ended
-- Parents that ended already; a statement of its own, so that it sees every parent that ended before the flags were set. The lock
-- keeps a retry by hand from reviving the parent before its end is noted on the edges, and a prune from removing it. A parent whose
-- partition is about to be dropped is left out: its child is linked when that is decided, to a parent that is gone or stays.
SELECT d.id, d.state, d.finished_at
FROM windlass.job_done AS d
WHERE d.id = ANY(:parents::uuid[])
    {{stays(d)}}
FOR KEY SHARE SKIP LOCKED;

-- name: link.mark
-- Notes the end of parents on the edges of children that are being linked; one whose time is not known any more ends now.
WITH edge AS MATERIALIZED (
    SELECT e.tid, g.state, g.ended_at
    FROM json_to_recordset(:edges::json) AS g (parent uuid, child uuid, state text, ended_at timestamptz)
    CROSS JOIN LATERAL (
        SELECT d.ctid AS tid
        FROM windlass.job_dep AS d
        WHERE (d.parent, d.child) >= (g.parent, g.child)
            AND (d.parent, d.child) <= (g.parent, g.child) -- belt: the edge was read a moment ago, and no session removes it
        ORDER BY d.parent, d.child
        LIMIT 1
    ) AS e
)
UPDATE windlass.job_dep AS d
SET parent_state = e.state,
    parent_ended_at = COALESCE(e.ended_at, :now::timestamptz, clock_timestamp())
FROM edge AS e
WHERE d.ctid = e.tid; -- a session that changed the row meanwhile noted the same end

-- name: link.done
-- Children whose edges are linked: from now on they wait for `pending` parents, or are due if there are none left.
WITH linked AS (
    UPDATE windlass.job_later AS l
    SET reason = CASE WHEN g.pending > 0 THEN 'waiting' ELSE 'scheduled' END,
        pending = g.pending
    FROM json_to_recordset(:children::json) AS g (id uuid, pending integer)
    WHERE l.id = ANY(ARRAY[g.id])
        AND l.reason || '' = 'unlinked'
    RETURNING l.id, l.pending, l.phase
), {{due_now(linked)}};

-- name: settle.edges
-- Consumes open edges of ended parents, parent by parent and child by child, each parent's from the child `after` on, and at most :limit in
-- all; returns them. An edge is consumed once; all that were found are returned again, without their policy, because one that the
-- linker takes meanwhile is found and not consumed.
WITH ended AS MATERIALIZED (
    SELECT g.id, g.state, g.after
    FROM json_to_recordset(:ended::json) AS g (id uuid, state text, after uuid)
), found AS MATERIALIZED (
    SELECT o.parent, o.child, e.state
    FROM (SELECT p.* FROM ended AS p ORDER BY p.id) AS e
    CROSS JOIN LATERAL (
        SELECT d.parent, d.child
        FROM windlass.job_dep AS d
        WHERE (d.parent, d.child) > (e.id, e.after)
            AND d.parent <= e.id
            AND d.parent_state IS NULL -- belt: tested again under the lock; consumed ones would fill the page
        ORDER BY d.parent, d.child
        LIMIT :limit::bigint -- belt: the outer one decides; this one bounds what a plan that reads ahead may read
    ) AS o
    LIMIT :limit::bigint
), open AS MATERIALIZED (
    SELECT d.tid, f.state
    FROM (SELECT o.* FROM found AS o ORDER BY o.child, o.parent) AS f
    CROSS JOIN LATERAL (
        SELECT e.ctid AS tid
        FROM windlass.job_dep AS e
        WHERE (e.parent, e.child) >= (f.parent, f.child)
            AND (e.parent, e.child) <= (f.parent, f.child)
            AND e.parent_state IS NULL -- belt: a row that was changed meanwhile is at another ctid
        ORDER BY e.parent, e.child
        LIMIT 1
        FOR UPDATE -- belt: the order of locks; before PostgreSQL 18 the update would also follow a row that was changed meanwhile
    ) AS d
), consumed AS (
    UPDATE windlass.job_dep AS d
    SET parent_state = o.state,
        parent_ended_at = {{now}}
    FROM open AS o
    WHERE d.ctid = o.tid -- locked, and any session that changes an open edge of an ended parent consumes it
    RETURNING d.parent, d.child, d.policy, d.parent_state
)
SELECT c.parent, c.child, c.policy, c.parent_state
FROM consumed AS c
UNION ALL
SELECT f.parent, f.child, NULL, NULL
FROM found AS f;

-- name: settle.leave
-- Leaves the rest of the edges of ended parents to upkeep, and notifies waiting instances.
WITH left_over AS (
    INSERT INTO windlass.settling (parent, after, state)
    SELECT g.id, g.after, g.state
    FROM json_to_recordset(:ended::json) AS g (id uuid, state text, after uuid)
    ORDER BY g.id
    ON CONFLICT (parent) DO NOTHING
)
{{notified('@later')}};

-- name: settle.take
-- Takes ended parents whose edges are left, with ids between two, leaving out those that another session has locked.
WITH picked AS MATERIALIZED (
    SELECT s.parent
    FROM windlass.settling AS s
    WHERE s.parent >= :first::uuid
        AND s.parent <= :last::uuid
    ORDER BY s.parent
    LIMIT :limit::bigint -- belt: each of them has an edge at least, so that no page needs more
    FOR UPDATE SKIP LOCKED
)
DELETE FROM windlass.settling AS s
USING picked AS p
WHERE s.parent = ANY(ARRAY[p.parent])
RETURNING s.parent, s.state, s.after;

-- name: settle.lock
-- Locks, in id order, the children that are counted down and those that are cancelled: one after the other they would be
-- locked in two orders, and two parents' ends could wait for each other.
SELECT l.id
FROM (
    SELECT c.id, ARRAY['waiting'] AS reasons
    FROM unnest(:counted::uuid[]) AS c (id)
    UNION ALL
    SELECT d.id, :reasons::text[]
    FROM unnest(:doomed::uuid[]) AS d (id)
    ORDER BY id
) AS g
CROSS JOIN LATERAL (
    SELECT w.id
    FROM windlass.job_later AS w
    WHERE w.id = g.id
        AND w.reason = ANY(g.reasons)
    FOR UPDATE
) AS l;

-- name: settle.count
-- Counts down waiting children on their locked rows; those that reach zero are due.
WITH given AS MATERIALIZED (
    SELECT g.id, g.satisfied
    FROM json_to_recordset(:children::json) AS g (id uuid, satisfied integer)
), child AS MATERIALIZED (
    SELECT l.id, g.satisfied
    FROM (SELECT s.id, s.satisfied FROM given AS s ORDER BY s.id) AS g
    CROSS JOIN LATERAL (
        SELECT w.id
        FROM windlass.job_later AS w
        WHERE w.id = g.id
            AND w.reason = 'waiting'
        FOR UPDATE -- belt: the update locks them in the same order; this one keeps the look-up from becoming a join
    ) AS l
), counted_down AS (
    UPDATE windlass.job_later AS l
    SET pending = l.pending - c.satisfied,
        reason = CASE WHEN l.pending - c.satisfied > 0 THEN 'waiting' ELSE 'scheduled' END
    FROM child AS c
    WHERE l.id = ANY(ARRAY[c.id])
    RETURNING l.id, l.pending, l.phase
), {{due_now(counted_down)}};

-- name: settle.promote
-- Moves given children that are due into their queues and notifies waiting instances; one whose run_at is still to come stays, and upkeep is
-- notified of it; one with a limit is parked.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), moved AS (
    DELETE FROM windlass.job_later AS l
    WHERE l.id = ANY(:ids::uuid[])
        AND l.reason || '' = 'scheduled'
        AND l.run_at <= (SELECT at FROM clock)
        AND l.flags & {LIMIT} = 0
    RETURNING l.*
), parked AS (
    UPDATE windlass.job_later AS l
    SET reason = 'limited'
    WHERE l.id = ANY(:ids::uuid[])
        AND l.reason || '' = 'scheduled'
        AND l.run_at <= (SELECT at FROM clock)
        AND l.flags & {LIMIT} <> 0
    RETURNING l.phase
), live AS (
    {{to_queue(m, {{now}})}}
    FROM moved AS m
    ORDER BY m.id
    ON CONFLICT (id) DO NOTHING
), counted AS (
    INSERT INTO windlass.delta (phase, waiting, scheduled, queued)
    SELECT m.phase, 0, -count(*), count(*)
    FROM moved AS m
    GROUP BY m.phase
    UNION ALL
    SELECT p.phase, count(*), -count(*), 0
    FROM parked AS p
    GROUP BY p.phase
)
{{notified(
    SELECT m.phase FROM moved AS m
    UNION ALL
    SELECT '@later' FROM parked AS p
    UNION ALL
    SELECT '@later'
    FROM windlass.job_later AS l
    WHERE l.id = ANY(:ids::uuid[])
        AND l.run_at > (SELECT at FROM clock)
)}};

-- name: retry.reopen
-- Parents that live again are waited for again by children that any end satisfies (policy run) and that still wait for another parent: the
-- edges are open again, and the children count one parent more each. The children are locked in order; one that is let go meanwhile keeps
-- its edge. The edges need no lock before: the retried parents are locked, and no other session changes what their ends left.
WITH consumed AS MATERIALIZED (
    SELECT o.tid, o.child
    FROM unnest(:ids::uuid[]) AS g (id)
    CROSS JOIN LATERAL (
        SELECT e.ctid AS tid, e.child
        FROM windlass.job_dep AS e
        WHERE (e.parent, e.child) >= (g.id, '00000000-0000-0000-0000-000000000000')
            AND e.parent <= g.id
            AND e.policy = 'run'
            AND e.parent_state IS NOT NULL -- belt: the end of a parent consumed the edges of all children that wait
        ORDER BY e.parent, e.child
        OFFSET 0
    ) AS o
), child AS MATERIALIZED (
    SELECT l.id
    FROM (SELECT DISTINCT o.child FROM consumed AS o ORDER BY o.child) AS c
    CROSS JOIN LATERAL (
        SELECT w.id
        FROM windlass.job_later AS w
        WHERE w.id = c.child
            AND w.reason = 'waiting'
        FOR UPDATE
    ) AS l
), reopened AS (
    UPDATE windlass.job_dep AS d
    SET parent_state = NULL,
        parent_ended_at = NULL
    FROM consumed AS o
    WHERE d.ctid = o.tid
        AND o.child IN (SELECT c.id FROM child AS c)
    RETURNING d.child
)
UPDATE windlass.job_later AS l
SET pending = l.pending + r.edges
FROM (SELECT o.child, count(*)::integer AS edges FROM reopened AS o GROUP BY o.child) AS r
WHERE l.id = ANY(ARRAY[r.child]);

-- name: parents.read
-- Ended jobs by their ids, in the order given, and as many as :bytes of results and errors allow, one at least; those that are not found
-- have no kind. They are searched for only in the history between two times, because each day of history that may have them is planned.
WITH RECURSIVE walked AS (
    SELECT 0 AS place, NULL::uuid AS id, NULL::text AS kind, NULL::text AS state, NULL::text AS result, NULL::text AS error,
        NULL::timestamptz AS finished_at, 0::bigint AS bytes
    UNION ALL
    SELECT w.place + 1, g.id, d.kind, d.state, d.result, d.error, d.finished_at,
        w.bytes + COALESCE(octet_length(d.result), 0) + COALESCE(octet_length(d.error), 0)
    FROM walked AS w
    CROSS JOIN LATERAL (SELECT (:ids::uuid[])[w.place + 1] AS id) AS g
    LEFT JOIN LATERAL (
        SELECT e.kind, e.state, e.result::text AS result, e.error::text AS error, e.finished_at
        FROM windlass.job_done AS e
        WHERE e.id = g.id
            AND e.finished_at BETWEEN :oldest::timestamptz AND :newest::timestamptz -- belt: prunes partitions
        LIMIT 1 -- belt: a job is there once; keeps the look-up from becoming a join
    ) AS d ON TRUE
    WHERE w.place < cardinality(:ids::uuid[])
        AND w.bytes < :bytes::bigint
)
SELECT w.id, w.kind, w.state, w.result, w.error, w.finished_at
FROM walked AS w
WHERE w.place > 0
ORDER BY w.place;

-- name: revive.edges
-- What the edges of these children say now. The lock makes a parent that ends meanwhile wait, and then find the child waiting;
-- and of two parents that are retried at once the second one see the first.
SELECT d.child, d.policy, d.parent_state
FROM (SELECT g.id FROM unnest(:ids::uuid[]) AS g (id) ORDER BY g.id) AS g
CROSS JOIN LATERAL (
    SELECT e.child, e.policy, e.parent_state
    FROM windlass.job_dep AS e
    WHERE e.child = g.id
    ORDER BY e.parent::text
    FOR UPDATE
) AS d;

-- name: revive.take
-- Brings children that were cancelled because of a parent back to wait for `pending` parents, as a new generation.
WITH taken AS (
    DELETE FROM windlass.job_done AS d
    USING json_to_recordset(:children::json) AS g (id uuid, pending integer)
    WHERE d.id = ANY(ARRAY[g.id])
        AND d.state || '' = 'cancelled'
        AND d.error ->> 'code' = 'parent_not_completed'
    RETURNING d.*, g.pending
), later AS (
    INSERT INTO windlass.job_later (id, created_at, run_at, pending, lane, generation, max_attempts, flags, reason, kind, phase,
        correlation, args)
    SELECT t.id, t.created_at, {{now}}, t.pending, t.lane, t.generation + 1, t.max_attempts,
        (t.flags & {SURVIVES})
            {{new_flags(t.kind)}}
            {{revived_flags(t)}},
        'waiting', t.kind, t.phase, t.correlation, t.args
    FROM taken AS t
)
{{revived}}
, counted AS (
    INSERT INTO windlass.delta (phase, waiting, cancelled)
    SELECT t.phase, count(*), -count(*)
    FROM taken AS t
    GROUP BY t.phase
)
SELECT t.id, t.kind, t.flags, t.args, t.key
FROM taken AS t;

-- fragment: cancel_details(job)
-- A job that ends because of a parent names the first parent that did not complete; the edge was marked before, in the same transaction.
(
            SELECT jsonb_build_object(
                'message', 'job ' || d.parent || ', which this job waited for, did not complete: ' || d.parent_state,
                'details', jsonb_build_object('parent', d.parent, 'parent_state', d.parent_state)
            )
            FROM windlass.job_dep AS d
            WHERE d.child = {job}.id
                AND d.policy = 'cancel'
                AND d.parent_state <> 'completed'
                AND :error::jsonb ->> 'code' = 'parent_not_completed'
            ORDER BY d.parent_ended_at, d.parent
            LIMIT 1
        ),

-- fragment: needed(table)
-- The same for a whole table of history: whether a child waits for one of its jobs, or may read it.
OR EXISTS (
    SELECT FROM windlass.job_dep AS e
    JOIN {table} AS d ON d.id = e.parent
    WHERE {{is_readable(e)}}
)

-- fragment: pruned
-- The edges of a pruned child go with it.
, pruned_edges AS (
    DELETE FROM windlass.job_dep AS e
    USING gone AS g
    WHERE e.child = g.id
)

-- fragment: due_now(children)
-- The last parts of a verb that counts parents: counts the children that wait for none any more as scheduled, and returns them.
counted AS (
    INSERT INTO windlass.delta (phase, waiting, scheduled)
    SELECT d.phase, -count(*), count(*)
    FROM {children} AS d
    WHERE d.pending = 0
    GROUP BY d.phase
)
SELECT d.id
FROM {children} AS d
WHERE d.pending = 0

-- name: delete.readers
-- How many children of each of these jobs have not ended: they wait for the job, or may still read what it left. (The order, which only the
-- primary key has, keeps plans that were made while there were few edges from reading all edges in the index by child.)
SELECT e.parent, count(*)
FROM unnest(:ids::uuid[]) AS g (id)
CROSS JOIN LATERAL (
    SELECT d.parent, d.child
    FROM windlass.job_dep AS d
    WHERE {{found_by(d.parent, g.id)}}
    ORDER BY d.parent, d.child
    OFFSET 0
) AS e
WHERE {{is_readable(e)}}
GROUP BY e.parent;
