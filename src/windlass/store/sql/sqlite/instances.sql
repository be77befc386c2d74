-- Instances, their heartbeats, and the recovery of jobs that dead instances held. A batch's jobs are found by their token with a scan
-- of the live table (SQLite makes an index of it for the one statement): it happens only when an instance died, and an
-- index on token would cost every claim.

-- name: beat
-- Renews all leases of a living instance; no row means it was declared dead and holds nothing any more. Returns the
-- tokens of own claims that the instance does not know (their reply was lost), once they are older than the grace.
UPDATE windlass_instance
SET heartbeat_at = :now
WHERE id = :instance
    AND dead_at IS NULL;
SELECT i.heartbeat_at, (
        SELECT group_concat(c.token)
        FROM windlass_claim AS c
        WHERE c.instance = :instance
            AND c.token NOT IN (SELECT g.value FROM json_each(:known) AS g)
            AND c.at < :now - :grace * 1000000
    ) AS unknown
FROM windlass_instance AS i
WHERE i.id = :instance
    AND i.dead_at IS NULL;

-- name: cancels
-- The jobs an instance holds that were asked to stop: the safety net for lost notifications.
SELECT j.id, j.token
FROM windlass_job AS j
WHERE j.cancel_at IS NOT NULL
    AND j.token IN (SELECT c.token FROM windlass_claim AS c WHERE c.instance = :instance);

-- name: leave
-- An instance that stops: gone if it holds nothing, dead at once (so that others recover the rest) if it does.
UPDATE windlass_instance
SET dead_at = :now
WHERE id = :instance
    AND dead_at IS NULL;
DELETE FROM windlass_instance
WHERE id = :instance
    AND NOT EXISTS (SELECT 1 FROM windlass_claim AS c WHERE c.instance = windlass_instance.id);

-- name: unclaim
-- Removes claim rows of an instance that cover no job any more.
DELETE FROM windlass_claim
WHERE token IN (SELECT g.value FROM json_each(:tokens) AS g)
    AND instance = :instance
    AND token NOT IN (SELECT j.token FROM windlass_job AS j WHERE j.token IS NOT NULL);

-- name: recover.declare_dead
-- Declares late instances dead.
UPDATE windlass_instance AS i
SET dead_at = :now
WHERE {{is_late(i, :now)}}
RETURNING id;

-- name: recover.pick
-- The jobs that dead instances hold (or, with :tokens, those of given claims), each with how many deaths of its instance it was
-- charged with before, in this phase.
SELECT j.id, j.token, j.kind, j.phase, j.lane, j.generation, j.attempt, j.max_attempts, j.crashes, j.flags, j.args,
    j.correlation, j.created_at, j.ready_at, j.claimed_at, j.cancel_at IS NOT NULL AS cancel_asked, o.job IS NOT NULL AS has_output,
    o.value AS output, o.next_phase, o.next_max_attempts,
    {{deaths(j)}} AS deaths
FROM windlass_claim AS c
LEFT JOIN windlass_instance AS i ON i.id = c.instance
CROSS JOIN windlass_job AS j ON j.token = c.token
LEFT JOIN windlass_output AS o ON o.job = j.id AND o.generation = j.generation AND o.phase = j.phase AND o.name = ''
WHERE (
        c.token IN (SELECT g.value FROM json_each(:tokens) AS g)
        OR (:tokens IS NULL AND (i.id IS NULL OR i.dead_at IS NOT NULL))
    )
LIMIT :limit;

-- name: recover.hold
-- Takes one dead instance's job over under a new token, so that the handler's probe can be called outside of any transaction; the old
-- holder is fenced from here on, and the attempt is not counted again.
INSERT INTO windlass_claim (instance, at, phase)
SELECT :instance, :now, j.phase
FROM windlass_job AS j
WHERE j.id = :id
    AND j.token = :token;
UPDATE windlass_job
SET token = (SELECT max(c.token) FROM windlass_claim AS c),
    claimed_at = :now
WHERE id = :id
    AND token = :token
RETURNING token, claimed_at;

-- name: recover.sweep
-- Removes claim rows of dead instances that cover no job any more, then the dead instances without claims.
DELETE FROM windlass_claim
WHERE token IN (
        SELECT c.token
        FROM windlass_claim AS c
        WHERE NOT EXISTS (SELECT 1 FROM windlass_instance AS i WHERE i.id = c.instance AND i.dead_at IS NULL)
    )
    AND token NOT IN (SELECT j.token FROM windlass_job AS j WHERE j.token IS NOT NULL);
DELETE FROM windlass_instance
WHERE dead_at < :now - 3600000000
    AND NOT EXISTS (SELECT 1 FROM windlass_claim AS c WHERE c.instance = windlass_instance.id);

-- name: recover.orphans
-- Processing jobs that no claim row covers, one page of the table at a time.
SELECT p.id, CASE WHEN p.orphan THEN p.token END AS token, p.kind, p.phase, p.lane, p.generation, p.attempt, p.max_attempts, p.crashes,
    p.flags, p.correlation, p.created_at, p.ready_at, p.claimed_at, p.cancel_at IS NOT NULL AS cancel_asked,
    u.job IS NOT NULL AS has_output, u.value AS output, u.next_phase, u.next_max_attempts,
    {{deaths(p)}} AS deaths
FROM (
    SELECT j.*, j.token IS NOT NULL AND NOT EXISTS (SELECT 1 FROM windlass_claim AS c WHERE c.token = j.token) AS orphan
    FROM windlass_job AS j
    WHERE j.id > :after
    ORDER BY j.id
    LIMIT :limit
) AS p
LEFT JOIN windlass_output AS u ON u.job = p.id AND u.generation = p.generation AND u.phase = p.phase AND u.name = ''
ORDER BY p.id;
