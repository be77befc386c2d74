-- Duties that every instance does a share of; none of them waits for a lock.

-- name: promote
-- Moves due jobs into their queues with a fresh ready_at, oldest due first and a microsecond apart, from the low-water mark on; notifies waiting
-- instances. A job is flagged here for rules that were defined while it waited, or while the transaction that enqueued it was open. A job that
-- is in its queue already (an enqueue repeated across a due time) is not put there twice, and does not stop the others.
-- One with a limit is parked instead. Returns for each phase how many moved or were parked, and the last due time among them.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), due AS MATERIALIZED (
    SELECT l.id, l.flags & {LIMIT} <> 0 AS is_limited
    FROM windlass.job_later AS l
    WHERE l.reason IN ('scheduled', 'retry', 'inbox')
        AND l.run_at >= :mark::timestamptz
        AND l.run_at <= (SELECT at FROM clock)
    ORDER BY l.run_at, l.id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM windlass.job_later AS l
    USING due AS d
    WHERE l.id = ANY(ARRAY[d.id])
        AND NOT d.is_limited
    RETURNING l.*
), parked AS (
    UPDATE windlass.job_later AS l
    SET reason = 'limited'
    FROM due AS d
    WHERE l.id = ANY(ARRAY[d.id])
        AND d.is_limited -- belt: the rows of others are removed by the part before
    RETURNING l.phase, l.run_at
), live AS (
    {{to_queue(m, c.at + (row_number() OVER (ORDER BY m.run_at, m.id) - 1) * interval '1 microsecond')}} -- belt: `due` comes in this order, but SQL does not promise it
    FROM moved AS m
    CROSS JOIN clock AS c
    ON CONFLICT (id) DO NOTHING
), counted AS (
    INSERT INTO windlass.delta (phase, waiting, scheduled, queued)
    SELECT m.phase, 0, -count(*), count(*)
    FROM moved AS m
    WHERE m.reason <> 'inbox'
    GROUP BY m.phase
    UNION ALL
    SELECT p.phase, count(*), -count(*), 0
    FROM parked AS p
    GROUP BY p.phase
), notified AS MATERIALIZED (
    {{notified(SELECT m.phase FROM moved AS m)}}
)
SELECT m.phase, count(*) AS moved, max(m.run_at) AS last_due, (SELECT count(*) FROM notified) AS notified
FROM (SELECT d.phase, d.run_at FROM moved AS d UNION ALL SELECT p.phase, p.run_at FROM parked AS p) AS m
GROUP BY m.phase;

-- name: fold
-- Folds delta rows into the tally.
WITH taken AS (
    DELETE FROM windlass.delta AS d
    WHERE d.ctid = ANY(ARRAY(SELECT t.ctid FROM windlass.delta AS t LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING d.*
)
INSERT INTO windlass.tally AS y (phase, waiting, scheduled, queued, processing, completed, failed, cancelled)
SELECT t.phase, sum(t.waiting), sum(t.scheduled), sum(t.queued), sum(t.processing), sum(t.completed), sum(t.failed),
    sum(t.cancelled)
FROM taken AS t
GROUP BY t.phase
ORDER BY t.phase
ON CONFLICT (phase) DO UPDATE
SET waiting = y.waiting + excluded.waiting,
    scheduled = y.scheduled + excluded.scheduled,
    queued = y.queued + excluded.queued,
    processing = y.processing + excluded.processing,
    completed = y.completed + excluded.completed,
    failed = y.failed + excluded.failed,
    cancelled = y.cancelled + excluded.cancelled
RETURNING y.phase;

-- name: oldest
-- Seconds since the oldest queued job of each phase became ready; NULL if none is queued.
SELECT s.phase, EXTRACT(epoch FROM clock.at - (
        SELECT GREATEST(LEAST(min(head.ready_at), '9999-01-01'), '0002-01-01') -- other software may have written a time that no driver can read
        FROM generate_series(0, 9) AS l (lane)
        CROSS JOIN LATERAL (
            SELECT j.ready_at
            FROM windlass.job AS j
            WHERE j.phase = s.phase
                AND j.lane = l.lane
                AND j.token IS NULL
            ORDER BY j.ready_at, j.id
            LIMIT 1
        ) AS head
    ))::double precision
FROM (
    SELECT t.phase FROM windlass.tally AS t
    UNION
    SELECT d.phase FROM windlass.delta AS d
) AS s
CROSS JOIN (SELECT {{now}} AS at) AS clock
ORDER BY s.phase;

-- name: resume
-- Lets claims of a phase go on; returns it if it was paused, and notifies waiting instances.
WITH resumed AS (
    DELETE FROM windlass.phase AS p
    WHERE p.name = :phase
    RETURNING p.name
)
SELECT r.name, pg_notify('windlass', r.name)::text
FROM resumed AS r;

-- name: prune.page
-- One page of ended jobs in id order that are past their time and that no child waits for, be it for their retry, and no key leads to; locks them.
SELECT d.id, d.finished_at
FROM windlass.job_done AS d
WHERE d.id > :after::uuid
    AND d.finished_at < GREATEST(:completed_before::timestamptz, :failed_before::timestamptz, :cancelled_before::timestamptz) -- belt: prunes partitions
    AND (
        (d.state = 'completed' AND d.finished_at < :completed_before::timestamptz)
        OR (d.state = 'failed' AND d.finished_at < :failed_before::timestamptz)
        OR (d.state = 'cancelled' AND d.finished_at < :cancelled_before::timestamptz)
    )
    {{kept(d)}}
ORDER BY d.id
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: prune.again
-- The jobs of a locked page that nothing needs. The page was found by the snapshot of its statement, and a child may have been stored and linked
-- between that snapshot and the locks; no child is linked while the locks are held.
SELECT d.id, d.finished_at
FROM windlass.job_done AS d
WHERE d.id = ANY(:ids::uuid[])
    AND d.finished_at BETWEEN :oldest::timestamptz AND :newest::timestamptz -- belt: prunes partitions
    {{kept(d)}};

-- name: prune.delete
-- Removes ended jobs with their attempts, edges and principals.
WITH gone AS (
    DELETE FROM windlass.job_done AS d
    WHERE d.id = ANY(:ids::uuid[])
        AND d.finished_at BETWEEN :oldest::timestamptz AND :newest::timestamptz -- belt: prunes partitions
    RETURNING d.id, d.phase, d.state
), attempts AS (
    DELETE FROM windlass.attempt AS a
    USING gone AS g
    WHERE a.job = g.id
)
{{pruned}}
, counted AS (
    INSERT INTO windlass.delta (phase, completed, failed, cancelled)
    SELECT g.phase,
        -count(*) FILTER (WHERE g.state = 'completed'),
        -count(*) FILTER (WHERE g.state = 'failed'),
        -count(*) FILTER (WHERE g.state = 'cancelled')
    FROM gone AS g
    GROUP BY g.phase
)
SELECT count(*)
FROM gone;

-- fragment: stays(job)
-- Conditions under which the partition of an ended job is not about to be dropped: "AND condition". The mark is that of store/postgres/partitions.py (LEAVING).
AND NOT EXISTS (
    SELECT 1 FROM pg_catalog.pg_description AS m
    WHERE m.objoid = {job}.tableoid
        AND m.classoid = 'pg_catalog.pg_class'::regclass -- belt: for the index; no two objects of a database are likely to have one oid
        AND m.objsubid = 0 -- belt: for the index; a comment of a column would have to be the mark
        AND m.description = 'windlass: past its retention, about to be dropped'
    OFFSET 0
)
