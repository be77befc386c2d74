-- What an instance should see to, asked for in one read, so that one with nothing to do costs next to nothing.

-- name: agenda
-- Seconds until the next job is due (NULL: none is scheduled), and whether there are jobs to link, instances whose lease ran out (or
-- that are dead and still have something), and counts to fold.
SELECT EXTRACT(epoch FROM (
        SELECT min(l.run_at)
        FROM windlass.job_later AS l
        WHERE l.reason IN ('scheduled', 'retry', 'inbox')
    ) - c.at)::double precision AS due_in,
    EXISTS (SELECT FROM windlass.job_later AS l WHERE l.reason = 'unlinked') AS unlinked,
    EXISTS (SELECT FROM windlass.instance AS i WHERE i.dead_at IS NOT NULL OR i.heartbeat_at < c.at - i.lease) AS dead,
    EXISTS (SELECT FROM windlass.delta) AS counted
FROM (SELECT COALESCE(:now::timestamptz, clock_timestamp()) AS at) AS c;
