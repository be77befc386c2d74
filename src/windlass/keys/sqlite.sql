-- name: debounce.replace
-- Gives the scheduled job of a debounced key new arguments and a new time; no row if it is no longer scheduled.
UPDATE windlass_job_later
SET args = :job -> '$.args',
    run_at = CAST(COALESCE(:job ->> '$.run_at', :now + (:job ->> '$.delay') * 1000000) AS INTEGER),
    lane = :job ->> '$.lane',
    max_attempts = :job ->> '$.max_attempts',
    flags = (flags & ~{BROUGHT}) | (:job ->> '$.flags' & {BROUGHT})
WHERE id = :id
    AND reason = 'scheduled'
RETURNING id, NULL;

-- fragment: tidied
-- An ended job frees its live key.
DELETE FROM windlass_job_key
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g)
    AND scope = 'live';
