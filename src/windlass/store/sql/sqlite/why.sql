-- Why a job is not running: how many jobs are claimed before it.

-- name: why.ahead
-- How many queued jobs of a phase are claimed before a job, counted up to :limit in each part. The index has no held jobs.
SELECT (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM windlass_job AS j
            WHERE j.phase = :phase
                AND j.lane < :lane
                AND j.token IS NULL
            LIMIT :limit
        ) AS higher
    ) + (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM windlass_job AS j
            WHERE j.phase = :phase
                AND j.lane = :lane
                AND (j.ready_at, j.id) < (:ready, :id)
                AND j.token IS NULL
            LIMIT :limit
        ) AS older
    ) AS ahead;
