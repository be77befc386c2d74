-- Ends of jobs, for callers that wait for them.

-- name: ends.of
-- How those of these jobs ended that have ended since a moment. On PostgreSQL older partitions are not read.
SELECT d.id, d.kind, d.state, d.result, d.error, d.finished_at
FROM windlass_job_done AS d
WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g)
    AND d.finished_at >= :since;
