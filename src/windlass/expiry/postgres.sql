-- Expiry on PostgreSQL. Rows of `job` and `job_later` are locked before those of `expiry`, and never waited for.

-- name: expiry.lock
-- Locks those of these jobs that have not begun, wherever they are, in id order. Leaves out those that another session has locked: it
-- starts, moves, changes or ends them.
SELECT j.id, j.flags, j.token, j.kind, j.phase, j.attempt, j.max_attempts, COALESCE(j.correlation, j.id::text) AS correlation, FALSE AS is_later
FROM (SELECT u.id FROM unnest(:ids::uuid[]) AS u (id) ORDER BY u.id) AS g
CROSS JOIN LATERAL (
    SELECT h.id, h.flags, h.token, h.kind, h.phase, h.attempt, h.max_attempts, h.correlation
    FROM windlass.job AS h
    WHERE h.id = g.id
        AND h.flags & {EXPIRES} <> 0
    FOR UPDATE SKIP LOCKED
) AS j
UNION ALL
SELECT l.id, l.flags, NULL, l.kind, l.phase, l.attempt, l.max_attempts, COALESCE(l.correlation, l.id::text), TRUE
FROM (SELECT u.id FROM unnest(:ids::uuid[]) AS u (id) ORDER BY u.id) AS g
CROSS JOIN LATERAL (
    SELECT w.id, w.flags, w.kind, w.phase, w.attempt, w.max_attempts, w.correlation
    FROM windlass.job_later AS w
    WHERE w.id = g.id
        AND w.flags & {EXPIRES} <> 0
    FOR UPDATE SKIP LOCKED
) AS l;

-- name: expiry.queued
-- Ends queued jobs that expiry.lock locked, each with its own error.
WITH ended AS (
    DELETE FROM windlass.job AS j
    USING json_to_recordset(:jobs::json) AS g (id uuid, error jsonb)
    WHERE j.id = ANY(ARRAY[g.id])
    RETURNING j.*, g.error
), history AS (
    {{cancelled(e, e.error)}}
    FROM ended AS e
), counted AS (
    INSERT INTO windlass.delta (phase, queued, cancelled)
    SELECT e.phase, -count(*), count(*)
    FROM ended AS e
    GROUP BY e.phase
)
SELECT e.id
FROM ended AS e;

-- name: expiry.later
-- Ends waiting jobs that expiry.lock locked, each with its own error.
WITH ended AS (
    DELETE FROM windlass.job_later AS l
    USING json_to_recordset(:jobs::json) AS g (id uuid, error jsonb)
    WHERE l.id = ANY(ARRAY[g.id])
    RETURNING l.*, g.error
), history AS (
    {{cancelled(e, e.error)}}
    FROM ended AS e
), counted AS (
    INSERT INTO windlass.delta (phase, waiting, scheduled, queued, cancelled)
    SELECT e.phase,
        -count(*) FILTER (WHERE e.reason IN ('waiting', 'unlinked', 'limited', 'paced')),
        -count(*) FILTER (WHERE e.reason IN ('scheduled', 'retry')),
        -count(*) FILTER (WHERE e.reason = 'inbox'),
        count(*)
    FROM ended AS e
    GROUP BY e.phase
)
SELECT e.id
FROM ended AS e;

-- column: agenda.expire_in
-- Seconds until the next job expires; NULL if none can.
EXTRACT(epoch FROM (SELECT e.expires_at FROM windlass.expiry AS e ORDER BY e.expires_at LIMIT 1) - clock.at)::double precision
