-- What an instance should see to, asked for in one read, so that one with nothing to do costs next to nothing.

-- name: agenda
-- Seconds until the next job is due (NULL: none is scheduled), and whether there are jobs to link, instances whose lease ran out (or
-- that are dead and still have something), and counts to fold.
SELECT ((
        SELECT min(l.run_at)
        FROM windlass_job_later AS l
        WHERE l.reason IN ('scheduled', 'retry', 'inbox')
    ) - :now) / 1000000.0 AS due_in,
    EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.reason = 'unlinked') AS unlinked,
    EXISTS (SELECT 1 FROM windlass_instance AS i WHERE i.dead_at IS NOT NULL OR i.heartbeat_at < :now - i.lease) AS dead,
    EXISTS (SELECT 1 FROM windlass_delta) AS counted;
