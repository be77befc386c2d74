-- What there is for an instance to do, in one read, so that an idle instance costs next to nothing.

-- name: agenda
-- Returns, in one row, what there is for an instance to do: seconds until the next job is due (NULL: none is scheduled), whether there is
-- anything to recover (as recover.due judges it) and counts to fold, seconds until the next pause of
-- a phase is over (NULL: none ends by itself) and until the next lease of an instance can run out (NULL: no instance), when the last pause
-- that ended by itself was over (NULL: none did), and what the features have to do.
SELECT ((
        SELECT min(l.run_at)
        FROM windlass_job_later AS l
        WHERE l.reason IN ('scheduled', 'retry', 'inbox')
    ) - :now) / 1000000.0 AS due_in,
    {{is_recovery_due(:now)}} AS dead,
    EXISTS (SELECT 1 FROM windlass_delta) AS counted,
    ((SELECT min(p.paused_until) FROM windlass_phase AS p WHERE p.paused_until > :now) - :now) / 1000000.0 AS resume_in,
    ((
        SELECT min(i.heartbeat_at + i.lease)
        FROM windlass_instance AS i
        WHERE i.dead_at IS NULL
            AND i.heartbeat_at + i.lease >= :now
    ) - :now) / 1000000.0 AS expires_in,
    (SELECT max(p.paused_until) FROM windlass_phase AS p WHERE p.paused_until <= :now) / 1000000.0 AS resumed_at{{agenda.columns}};
