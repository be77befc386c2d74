-- Per-minute statistics, per phase and instance.

-- name: rollup.prune
-- Removes minutes before a time; returns how many rows were removed.
WITH gone AS (
    DELETE FROM windlass.rollup AS r
    WHERE r.minute < :before::timestamptz
    RETURNING r.minute
)
SELECT count(*) AS removed
FROM gone;
