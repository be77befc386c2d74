-- Per-minute statistics, per phase and instance.

-- name: rollup.put
-- Writes minutes of one instance; what was written before for the same minute and phase is overwritten, so that a repeated
-- call changes nothing.
INSERT INTO windlass.rollup (minute, phase, instance, completed, failed, retried, cancelled, released, wait, run, wait_ms_sum,
    run_ms_sum)
SELECT g.minute, g.phase, :instance::uuid, g.completed, g.failed, g.retried, g.cancelled, g.released, g.wait, g.run,
    g.wait_ms_sum, g.run_ms_sum
FROM {{given(:rows, g,
    minute timestamptz, phase text, completed integer, failed integer, retried integer, cancelled integer,
    released integer, wait jsonb, run jsonb, wait_ms_sum bigint, run_ms_sum bigint
)}}
ORDER BY g.minute, g.phase
ON CONFLICT (minute, phase, instance) DO UPDATE
SET completed = excluded.completed,
    failed = excluded.failed,
    retried = excluded.retried,
    cancelled = excluded.cancelled,
    released = excluded.released,
    wait = excluded.wait,
    run = excluded.run,
    wait_ms_sum = excluded.wait_ms_sum,
    run_ms_sum = excluded.run_ms_sum;

-- name: rollup.read
-- The minutes from one time to another, of all instances. The caller sorts them: the server would write what it sorts to disk.
SELECT r.minute, r.phase, r.completed, r.failed, r.retried, r.cancelled, r.released, r.wait, r.run, r.wait_ms_sum, r.run_ms_sum
FROM windlass.rollup AS r
WHERE r.minute >= :since::timestamptz
    AND (:until::timestamptz IS NULL OR r.minute < :until::timestamptz)
    AND (:phase::text IS NULL OR r.phase = :phase);

-- name: rollup.span.put
-- Writes whole hours or days; a repeated call changes nothing.
INSERT INTO windlass.rollup_span (seconds, at, phase, completed, failed, retried, cancelled, released, wait, run, wait_ms_sum, run_ms_sum)
SELECT :seconds::integer, g.minute, g.phase, g.completed, g.failed, g.retried, g.cancelled, g.released, g.wait, g.run,
    g.wait_ms_sum, g.run_ms_sum
FROM {{given(:rows, g,
    minute timestamptz, phase text, completed bigint, failed bigint, retried bigint, cancelled bigint,
    released bigint, wait jsonb, run jsonb, wait_ms_sum bigint, run_ms_sum bigint
)}}
ORDER BY g.minute, g.phase
ON CONFLICT (seconds, at, phase) DO UPDATE
SET completed = excluded.completed,
    failed = excluded.failed,
    retried = excluded.retried,
    cancelled = excluded.cancelled,
    released = excluded.released,
    wait = excluded.wait,
    run = excluded.run,
    wait_ms_sum = excluded.wait_ms_sum,
    run_ms_sum = excluded.run_ms_sum;

-- name: rollup.span.read
-- The hours or days from one time to another; the caller sorts them.
SELECT r.at, r.phase, r.completed, r.failed, r.retried, r.cancelled, r.released, r.wait, r.run, r.wait_ms_sum, r.run_ms_sum
FROM windlass.rollup_span AS r
WHERE r.seconds = :seconds::integer
    AND r.at >= :since::timestamptz
    AND r.at < :until::timestamptz
    AND (:phase::text IS NULL OR r.phase = :phase);

-- name: rollup.span.last
-- When the last written hour or day began.
SELECT max(r.at) AS last
FROM windlass.rollup_span AS r
WHERE r.seconds = :seconds::integer;

-- name: rollup.first
-- The first minute that is kept.
SELECT min(r.minute) AS first
FROM windlass.rollup AS r;

-- name: rollup.span.prune
-- Removes hours or days before a time.
DELETE FROM windlass.rollup_span
WHERE seconds = :seconds::integer
    AND at < :before::timestamptz;
