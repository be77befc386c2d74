-- Duties that every instance does a share of.

-- name: promote.due
-- Whether anything is due: a read, so that an idle instance never writes.
SELECT 1
FROM windlass_job_later AS l
WHERE l.reason IN ('scheduled', 'retry', 'inbox')
    AND l.run_at <= :now
LIMIT 1;

-- name: promote
-- Moves due jobs into their queues with a fresh ready_at, oldest due first and a microsecond apart; one with a limit is parked instead. Returns
-- for each phase how many moved or were parked, and the last due time among them.
SELECT l.phase, count(*) AS moved, max(l.run_at) AS last_due, 0 AS notified
FROM {{due_jobs}}
GROUP BY l.phase;
{{to_queue(l, :now + row_number() OVER (ORDER BY l.run_at, l.id) - 1)}} -- belt: `due` comes in this order, but SQL does not promise it
FROM {{due_jobs}}
WHERE l.flags & {LIMIT} = 0;
INSERT INTO windlass_delta (phase, scheduled, queued)
SELECT l.phase, -count(*), count(*)
FROM {{due_jobs}}
WHERE l.reason <> 'inbox'
    AND l.flags & {LIMIT} = 0
GROUP BY l.phase;
DELETE FROM windlass_job_later
WHERE rowid IN (
        {{promote_page}}
    )
    AND flags & {LIMIT} = 0;
INSERT INTO windlass_delta (phase, waiting, scheduled)
SELECT l.phase, count(*), -count(*)
FROM windlass_job_later AS l
WHERE l.reason IN ('scheduled', 'retry', 'inbox')
    AND l.run_at <= :now
    AND l.flags & {LIMIT} <> 0
GROUP BY l.phase;
UPDATE windlass_job_later
SET reason = 'limited'
WHERE reason IN ('scheduled', 'retry', 'inbox') -- the words of the partial index; none with a limit passes through the inbox
    AND run_at <= :now
    AND flags & {LIMIT} <> 0;

-- name: fold.due
-- Whether there is anything to fold.
SELECT 1
FROM windlass_delta
LIMIT 1;

-- name: fold
-- Folds delta rows into the tally.
INSERT INTO windlass_tally AS y (phase, waiting, scheduled, queued, processing, completed, failed, cancelled)
SELECT t.phase, sum(t.waiting), sum(t.scheduled), sum(t.queued), sum(t.processing), sum(t.completed), sum(t.failed),
    sum(t.cancelled)
FROM (SELECT * FROM windlass_delta ORDER BY rowid LIMIT :limit) AS t
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
GROUP BY t.phase
ON CONFLICT (phase) DO UPDATE
SET waiting = y.waiting + excluded.waiting,
    scheduled = y.scheduled + excluded.scheduled,
    queued = y.queued + excluded.queued,
    processing = y.processing + excluded.processing,
    completed = y.completed + excluded.completed,
    failed = y.failed + excluded.failed,
    cancelled = y.cancelled + excluded.cancelled;
DELETE FROM windlass_delta
WHERE rowid IN (SELECT t.rowid FROM windlass_delta AS t ORDER BY t.rowid LIMIT :limit)
RETURNING phase;

-- name: oldest
-- Seconds since the oldest queued job of each phase became ready; NULL if none is queued.
SELECT s.phase, (:now - (
        SELECT min((
            SELECT j.ready_at
            FROM windlass_job AS j
            WHERE j.phase = s.phase
                AND j.lane = l.value
                AND j.token IS NULL
            ORDER BY j.ready_at, j.id
            LIMIT 1
        ))
        FROM json_each('[0,1,2,3,4,5,6,7,8,9]') AS l
    )) / 1000000.0
FROM (
    SELECT t.phase FROM windlass_tally AS t
    UNION
    SELECT d.phase FROM windlass_delta AS d
) AS s
ORDER BY s.phase;

-- name: resume
-- Lets claims of a phase go on; returns it if it was paused.
DELETE FROM windlass_phase
WHERE name = :phase
RETURNING name, NULL;

-- name: prune.page
-- One page of ended jobs in id order that are past their time and that no child waits for, be it for their retry, and no key leads to.
SELECT d.id, d.finished_at
FROM windlass_job_done AS d
WHERE {{is_past(d)}}
    AND d.id > :after
    {{kept(d)}}
ORDER BY d.id
LIMIT :limit;

-- name: prune.again
-- The jobs of a page that are still past their time and that nothing needs. The page is read before the write lock is taken, because the
-- read may pass over all of history; this check reads the page alone.
SELECT d.id, d.finished_at
FROM windlass_job_done AS d
WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND {{is_past(d)}}
    {{kept(d)}};

-- name: prune.delete
-- Removes ended jobs with their attempts, edges and principals.
INSERT INTO windlass_delta (phase, completed, failed, cancelled)
SELECT d.phase, -sum(d.state = 'completed'), -sum(d.state = 'failed'), -sum(d.state = 'cancelled')
FROM windlass_job_done AS d
WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g)
GROUP BY d.phase;
DELETE FROM windlass_attempt
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
{{pruned}}
DELETE FROM windlass_job_done
WHERE id IN (SELECT g.value FROM json_each(:ids) AS g);
SELECT json_array_length(:ids);

-- fragment: is_past(job)
-- Whether an ended job is past the time of its end state.
(
        ({job}.state = 'completed' AND {job}.finished_at < :completed_before)
        OR ({job}.state = 'failed' AND {job}.finished_at < :failed_before)
        OR ({job}.state = 'cancelled' AND {job}.finished_at < :cancelled_before)
    )

-- fragment: promote_page
-- A page of due jobs, oldest due first.
SELECT d.rowid AS row
FROM windlass_job_later AS d
WHERE d.reason IN ('scheduled', 'retry', 'inbox')
    AND d.run_at <= :now
ORDER BY d.run_at, d.id
LIMIT :limit

-- fragment: due_jobs
-- The rows of that page, in its order.
(
    {{promote_page}}
) AS due
CROSS JOIN windlass_job_later AS l ON l.rowid = due.row
