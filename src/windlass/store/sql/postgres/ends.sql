-- Ends of jobs, for callers that wait for them.

-- name: ends.of
-- How those of these jobs ended that have ended since a moment. On PostgreSQL older partitions are not read.
SELECT d.id::text, d.kind, d.state, d.result, d.error, d.finished_at
FROM windlass.job_done AS d
WHERE d.id = ANY(:ids::uuid[])
    AND d.finished_at >= :since::timestamptz;

-- name: ends.notify
-- Sends these texts to a channel. A hint that is lost in a crash does no harm, so that the commit need not wait for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, t.text)::text
FROM unnest(:texts::text[]) AS t (text);
