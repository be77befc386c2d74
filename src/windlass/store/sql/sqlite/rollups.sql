-- Per-minute statistics, per phase and instance.

-- name: rollup.prune
-- Removes minutes before a time; returns how many rows were removed.
DELETE FROM windlass_rollup
WHERE minute < :before;
SELECT changes() AS removed;
