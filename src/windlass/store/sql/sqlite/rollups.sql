-- Per-minute statistics, per phase and instance.

-- name: rollup.put
-- Writes minutes of one instance; what was written before for the same minute and phase is overwritten, so that a repeated
-- call changes nothing.
INSERT INTO windlass_rollup (minute, phase, instance, completed, failed, retried, cancelled, released, wait, run, wait_ms_sum,
    run_ms_sum)
SELECT g.value ->> '$.minute', g.value ->> '$.phase', :instance, g.value ->> '$.completed', g.value ->> '$.failed',
    g.value ->> '$.retried', g.value ->> '$.cancelled', g.value ->> '$.released', g.value -> '$.wait', g.value -> '$.run',
    g.value ->> '$.wait_ms_sum', g.value ->> '$.run_ms_sum'
FROM json_each(:rows) AS g
ORDER BY g.key
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
-- The minutes from one time to another, of all instances, in order.
SELECT r.minute, r.phase, r.completed, r.failed, r.retried, r.cancelled, r.released, r.wait, r.run, r.wait_ms_sum, r.run_ms_sum
FROM windlass_rollup AS r
WHERE r.minute >= :since
    AND (:until IS NULL OR r.minute < :until)
    AND (:phase IS NULL OR r.phase = :phase)
ORDER BY r.minute, r.phase;

-- name: rollup.prune
-- Removes minutes before a time; returns how many rows were removed.
DELETE FROM windlass_rollup
WHERE minute < :before;
SELECT changes() AS removed;
