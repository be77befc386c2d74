-- What an instance should see to, asked for in one read, so that one with nothing to do costs next to nothing.

-- name: agenda
-- Seconds until the next job is due (NULL: none is scheduled), whether there are jobs to link, ended parents
-- whose children are still to be let know, anything to recover (as recover.due judges it, but the asking
-- instance counts, too), and counts to fold; seconds until the next tick is due (NULL: no schedule fires);
-- whether kinds have got rules whose jobs are to be looked through (as rule.kinds.new judges it); whether there are limited jobs that nobody
-- has looked at or places that were given up, jobs that wait for their phase's rate, and phases with flow control at all; seconds until the
-- next pause of a phase is over (NULL: none ends by itself); and seconds until the next lease of an instance can run out (NULL: nobody is there).
SELECT ((
        SELECT min(l.run_at)
        FROM windlass_job_later AS l
        WHERE l.reason IN ('scheduled', 'retry', 'inbox')
    ) - :now) / 1000000.0 AS due_in,
    EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.reason = 'unlinked') AS unlinked,
    EXISTS (SELECT 1 FROM windlass_settling) AS settling,
    EXISTS (
        SELECT 1 FROM windlass_instance AS i
        WHERE (i.dead_at IS NULL AND i.heartbeat_at + i.lease < :now)
            OR (i.dead_at IS NOT NULL AND EXISTS (SELECT 1 FROM windlass_claim AS c WHERE c.instance = i.id))
            OR i.dead_at < :now - 3600000000
    ) OR EXISTS (
        SELECT 1 FROM windlass_claim AS c
        WHERE NOT EXISTS (SELECT 1 FROM windlass_instance AS i WHERE i.id = c.instance)
    ) AS dead,
    EXISTS (SELECT 1 FROM windlass_delta) AS counted,
    ((SELECT min(s.next_at) FROM windlass_schedule AS s) - :now) / 1000000.0 AS tick_in,
    EXISTS (
        SELECT 1 FROM windlass_rule_kind AS k
        WHERE k.looks = 0
            OR (k.looks = 1 AND k.since < :now - 15000000)
    ) AS new_kinds,
    EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.reason = 'limited' AND l.gate IS NULL)
    OR EXISTS (SELECT 1 FROM windlass_job_limit AS t WHERE t.gone) AS parked,
    EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.reason = 'paced') AS paced,
    EXISTS (SELECT 1 FROM windlass_flow) AS flowing,
    ((SELECT min(p.paused_until) FROM windlass_phase AS p WHERE p.paused_until > :now) - :now) / 1000000.0 AS resume_in,
    ((
        SELECT min(i.heartbeat_at + i.lease)
        FROM windlass_instance AS i
        WHERE i.dead_at IS NULL
            AND i.heartbeat_at + i.lease >= :now
    ) - :now) / 1000000.0 AS expires_in;
