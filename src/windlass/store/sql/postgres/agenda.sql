-- What an instance should see to, asked for in one read, so that one with nothing to do costs next to nothing.

-- name: agenda
-- Seconds until the next job is due (NULL: none is scheduled), whether there are jobs to link, ended parents
-- whose children are still to be let know, anything to recover (as recover.due judges it, but the asking
-- instance counts, too), and counts to fold; seconds until the next tick is due (NULL: no schedule fires);
-- whether kinds have got rules whose jobs are to be looked through (as rule.kinds.new judges it); whether there are limited jobs that nobody
-- has looked at or places that were given up, jobs that wait for their phase's rate, and phases with flow control at all; seconds until the
-- next pause of a phase is over (NULL: none ends by itself); and seconds until the next lease of an instance can run out (NULL: nobody is there).
SELECT EXTRACT(epoch FROM (
        SELECT l.run_at
        FROM windlass.job_later AS l
        WHERE l.reason IN ('scheduled', 'retry', 'inbox')
        ORDER BY l.run_at
        LIMIT 1
    ) - clock.at)::double precision AS due_in,
    EXISTS (SELECT FROM windlass.job_later AS l WHERE l.reason = 'unlinked') AS unlinked,
    EXISTS (SELECT FROM windlass.settling) AS settling,
    EXISTS (
        SELECT FROM windlass.instance AS i
        WHERE (i.dead_at IS NULL AND i.heartbeat_at + i.lease < clock.at)
            OR (i.dead_at IS NOT NULL AND EXISTS (SELECT FROM windlass.claim AS c WHERE c.instance = i.id))
            OR i.dead_at < clock.at - interval '1 hour'
    ) OR EXISTS (
        SELECT FROM windlass.claim AS c
        WHERE NOT EXISTS (SELECT FROM windlass.instance AS i WHERE i.id = c.instance)
    ) AS dead,
    EXISTS (SELECT FROM windlass.delta) AS counted,
    EXTRACT(epoch FROM (SELECT min(s.next_at) FROM windlass.schedule AS s) - clock.at)::double precision AS tick_in,
    EXISTS (
        SELECT FROM windlass.rule_kind AS k
        WHERE k.looks = 0
            OR (k.looks = 1 AND k.since < clock.at - interval '15 seconds')
    ) AS new_kinds,
    (SELECT l.id FROM windlass.job_later AS l WHERE l.reason = 'limited' AND l.gate IS NULL ORDER BY l.id LIMIT 1) IS NOT NULL
    OR EXISTS (SELECT FROM windlass.job_limit AS t WHERE t.gone) AS parked,
    (SELECT l.phase FROM windlass.job_later AS l WHERE l.reason = 'paced' ORDER BY l.phase LIMIT 1) IS NOT NULL AS paced,
    EXISTS (SELECT FROM windlass.flow) AS flowing,
    EXTRACT(epoch FROM (SELECT min(p.paused_until) FROM windlass.phase AS p WHERE p.paused_until > clock.at) - clock.at)::double precision AS resume_in,
    EXTRACT(epoch FROM (
        SELECT min(i.heartbeat_at + i.lease)
        FROM windlass.instance AS i
        WHERE i.dead_at IS NULL
            AND i.heartbeat_at + i.lease >= clock.at
    ) - clock.at)::double precision AS expires_in
FROM (SELECT COALESCE(:now::timestamptz, clock_timestamp()) AS at) AS clock;
