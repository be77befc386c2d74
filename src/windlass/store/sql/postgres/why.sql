-- Why a job is not running: how many jobs are claimed before it.

-- name: why.ahead
-- How many queued jobs of a phase are claimed before a job, counted up to :limit. The index has held jobs as well, most of them at the head of
-- the queue, so it is read from the job towards the head, and no further than 30,000 jobs in each part: a hundred thousand held jobs
-- would take 50 ms.
SELECT (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM (
                SELECT j.token
                FROM windlass.job AS j
                WHERE j.phase = :phase::text
                    AND j.lane < :lane::smallint
                ORDER BY j.lane DESC, j.ready_at DESC, j.id DESC
                LIMIT 30000
            ) AS higher
            WHERE higher.token IS NULL
            LIMIT :limit
        ) AS counted_higher
    ) + (
        SELECT count(*)
        FROM (
            SELECT 1
            FROM (
                SELECT j.token
                FROM windlass.job AS j
                WHERE j.phase = :phase::text
                    AND j.lane = :lane::smallint
                    AND (j.ready_at, j.id) < (:ready::timestamptz, :id::uuid)
                ORDER BY j.ready_at DESC, j.id DESC
                LIMIT 30000
            ) AS older
            WHERE older.token IS NULL
            LIMIT :limit
        ) AS counted_older
    ) AS ahead;
