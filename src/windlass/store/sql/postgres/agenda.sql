-- What there is for an instance to do, in one read, so that an idle instance costs next to nothing.

-- name: agenda
-- Returns, in one row, what there is for an instance to do: seconds until the next job is due (NULL: none is scheduled), whether there is
-- anything to recover (as recover.due judges it) and counts to fold, seconds until the next pause of
-- a phase is over (NULL: none ends by itself) and until the next lease of an instance can run out (NULL: no instance), when the last pause
-- that ended by itself was over (NULL: none did), and what the features have to do.
SELECT EXTRACT(epoch FROM (
        SELECT l.run_at
        FROM windlass.job_later AS l
        WHERE l.reason IN ('scheduled', 'retry', 'inbox')
        ORDER BY l.run_at
        LIMIT 1
    ) - clock.at)::double precision AS due_in,
    {{is_recovery_due(clock.at)}} AS dead,
    EXISTS (SELECT FROM windlass.delta) AS counted,
    EXTRACT(epoch FROM (SELECT min(p.paused_until) FROM windlass.phase AS p WHERE p.paused_until > clock.at) - clock.at)::double precision AS resume_in,
    EXTRACT(epoch FROM (
        SELECT min(i.heartbeat_at + i.lease)
        FROM windlass.instance AS i
        WHERE i.dead_at IS NULL
            AND i.heartbeat_at + i.lease >= clock.at
    ) - clock.at)::double precision AS expires_in,
    EXTRACT(epoch FROM (SELECT max(p.paused_until) FROM windlass.phase AS p WHERE p.paused_until <= clock.at))::double precision AS resumed_at{{agenda.columns}}
FROM (SELECT {{now}} AS at) AS clock;
