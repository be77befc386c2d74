-- Instances, their heartbeats, and the recovery of jobs that dead instances held.
--
-- A claim row finds its jobs through job_ready, lane by lane: with `lane BETWEEN` the index can not use ready_at (70 ms a
-- claim at 1M queued rows, before PostgreSQL 18), and without OFFSET 0 or a LIMIT the join is turned round and reads all
-- of `job`.

-- name: beat
-- Renews all leases of a living instance; no row means it was declared dead and holds nothing any more. Returns the
-- tokens of own claims that the instance does not know (their reply was lost), once they are older than the grace.
WITH beaten AS (
    UPDATE windlass.instance AS i
    SET heartbeat_at = {{now}}
    WHERE i.id = :instance::uuid
        AND i.dead_at IS NULL
    RETURNING i.heartbeat_at
)
SELECT b.heartbeat_at, (
        SELECT string_agg(c.token::text, ',')
        FROM windlass.claim AS c
        WHERE c.instance = :instance::uuid
            AND NOT c.token = ANY(:known::bigint[])
            AND c.at < b.heartbeat_at - :grace::double precision * interval '1 second'
    ) AS unknown
FROM beaten AS b;

-- name: cancels
-- The jobs an instance holds that were asked to stop: the safety net for lost notifications.
SELECT j.id, c.token
FROM windlass.claim AS c
CROSS JOIN LATERAL unnest(c.lanes, c.los, c.his) AS r (lane, lo, hi)
CROSS JOIN LATERAL (
    SELECT h.id
    FROM windlass.job AS h
    WHERE h.phase = c.phase
        AND h.lane = r.lane
        AND h.ready_at BETWEEN r.lo AND r.hi
        AND h.token = c.token
        AND h.cancel_at IS NOT NULL
    OFFSET 0
) AS j
WHERE c.instance = :instance::uuid;

-- name: leave
-- An instance that stops: gone if it holds nothing, dead at once (so that others recover the rest) if it does.
WITH gone AS (
    DELETE FROM windlass.instance AS i
    WHERE i.id = :instance::uuid
        AND NOT EXISTS (SELECT FROM windlass.claim AS c WHERE c.instance = i.id)
)
UPDATE windlass.instance AS i
SET dead_at = {{now}}
WHERE i.id = :instance::uuid
    AND i.dead_at IS NULL
    AND EXISTS (SELECT FROM windlass.claim AS c WHERE c.instance = i.id);

-- name: unclaim
-- Removes claim rows of an instance that cover no job any more.
DELETE FROM windlass.claim AS c
WHERE c.token = ANY(:tokens::bigint[])
    AND c.instance = :instance::uuid
    AND {{is_empty(c)}};

-- name: recover.declare_dead
-- Declares late instances dead, tested under the row's lock.
WITH late AS MATERIALIZED (
    SELECT i.id
    FROM windlass.instance AS i
    WHERE {{is_late(i, {{now_once}})}}
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
)
UPDATE windlass.instance AS i
SET dead_at = {{now}}
FROM late AS l
WHERE i.id = l.id
RETURNING i.id;

-- name: recover.pick
-- Locks jobs that dead instances hold (or, with :tokens, those of given claims), leaving out the ones an open effect
-- transaction has: its holder may still be committing, and the next call finds them again. Returns with each how many deaths of its
-- instance it was charged with before, in this phase.
SELECT j.id, j.token, j.kind, j.phase, j.lane, j.generation, j.attempt, j.max_attempts, j.crashes, j.flags, j.args,
    j.correlation, GREATEST(LEAST(j.created_at, '9999-01-01'), '0002-01-01') AS created_at,
    GREATEST(LEAST(j.ready_at, '9999-01-01'), '0002-01-01') AS ready_at,
    GREATEST(LEAST(j.claimed_at, '9999-01-01'), '0002-01-01') AS claimed_at, j.cancel_at IS NOT NULL AS cancel_asked,
    o.job IS NOT NULL AS has_output, o.value AS output, o.next_phase, o.next_max_attempts,
    {{deaths(j)}} AS deaths
FROM windlass.claim AS c
CROSS JOIN LATERAL unnest(c.lanes, c.los, c.his) AS r (lane, lo, hi)
CROSS JOIN LATERAL (
    SELECT h.*
    FROM windlass.job AS h
    WHERE h.phase = c.phase
        AND h.lane = r.lane
        AND h.ready_at BETWEEN r.lo AND r.hi
        AND h.token = c.token
    LIMIT :limit -- belt: the outer one decides; this one bounds what a plan that reads ahead may lock
    FOR UPDATE SKIP LOCKED
) AS j
LEFT JOIN LATERAL (
    SELECT p.*
    FROM windlass.output AS p
    WHERE p.job = j.id
        AND p.generation = j.generation
        AND p.phase = j.phase
        AND p.name = ''
    LIMIT 1
) AS o ON TRUE
WHERE (
        c.token = ANY(:tokens::bigint[])
        OR (:tokens::bigint[] IS NULL AND EXISTS (SELECT FROM windlass.instance AS i WHERE i.id = c.instance AND i.dead_at IS NOT NULL))
        OR (:tokens::bigint[] IS NULL AND NOT EXISTS (SELECT FROM windlass.instance AS i WHERE i.id = c.instance))
    )
LIMIT :limit;

-- name: recover.hold
-- Takes one dead instance's job over under a new token, so that the handler's probe can be called outside of any transaction; the old
-- holder is fenced from here on, and the attempt is not counted again.
WITH held AS (
    INSERT INTO windlass.claim (instance, at, lanes, los, his, phase)
    SELECT :instance::uuid, {{now}}, ARRAY[j.lane], ARRAY[j.ready_at], ARRAY[j.ready_at], j.phase
    FROM windlass.job AS j
    WHERE j.id = :id::uuid
        AND j.token = :token::bigint
    RETURNING token, at
)
UPDATE windlass.job AS j
SET token = h.token,
    claimed_at = h.at
FROM held AS h
WHERE j.id = :id::uuid
    AND j.token = :token::bigint -- belt: held is empty unless this holds
RETURNING j.token, j.claimed_at;

-- name: recover.sweep
-- Removes claim rows of dead instances that cover no job any more, then the dead instances without claims.
WITH dead AS MATERIALIZED (
    SELECT c.token
    FROM windlass.claim AS c
    WHERE (
            EXISTS (SELECT FROM windlass.instance AS i WHERE i.id = c.instance AND i.dead_at IS NOT NULL)
            OR NOT EXISTS (SELECT FROM windlass.instance AS i WHERE i.id = c.instance)
        )
), emptied AS (
    DELETE FROM windlass.claim AS c
    USING dead AS d
    WHERE c.token = ANY(ARRAY[d.token])
        AND {{is_empty(c)}}
)
DELETE FROM windlass.instance AS i
WHERE i.dead_at < (SELECT {{now}}) - interval '1 hour'
    AND NOT EXISTS (SELECT FROM windlass.claim AS c WHERE c.instance = i.id);

-- name: recover.orphans
-- Processing jobs that no claim row covers, one page of the table at a time. Locks the rows that it returns.
WITH page AS MATERIALIZED (
    SELECT j.id, j.token
    FROM windlass.job AS j
    WHERE j.id > :after::uuid
    ORDER BY j.id
    LIMIT :limit
), orphan AS MATERIALIZED (
    SELECT j.id, j.token, j.kind, j.phase, j.lane, j.generation, j.attempt, j.max_attempts, j.crashes, j.flags, j.correlation,
        GREATEST(LEAST(j.created_at, '9999-01-01'), '0002-01-01') AS created_at,
        GREATEST(LEAST(j.ready_at, '9999-01-01'), '0002-01-01') AS ready_at,
        GREATEST(LEAST(j.claimed_at, '9999-01-01'), '0002-01-01') AS claimed_at, j.cancel_at IS NOT NULL AS cancel_asked
    FROM page AS p
    CROSS JOIN LATERAL (
        SELECT l.*
        FROM windlass.job AS l
        WHERE l.id = p.id
            AND l.token IS NOT NULL
            AND NOT EXISTS (SELECT FROM windlass.claim AS c WHERE c.token = l.token OFFSET 0)
        FOR UPDATE OF l SKIP LOCKED
    ) AS j
)
SELECT p.id, o.token, o.kind, o.phase, o.lane, o.generation, o.attempt, o.max_attempts, o.crashes, o.flags, o.correlation,
    o.created_at, o.ready_at, o.claimed_at, o.cancel_asked, u.job IS NOT NULL AS has_output,
    u.value AS output, u.next_phase, u.next_max_attempts,
    {{deaths(o)}} AS deaths
FROM page AS p
LEFT JOIN orphan AS o ON o.id = p.id
LEFT JOIN LATERAL (
    SELECT r.*
    FROM windlass.output AS r
    WHERE r.job = o.id
        AND r.generation = o.generation
        AND r.phase = o.phase
        AND r.name = ''
    LIMIT 1
) AS u ON TRUE
ORDER BY p.id;

-- name: wait
-- Registers that an instance waits for these phases for a while, so that enqueues notify.
INSERT INTO windlass.wake AS w (phase, waiting_until)
SELECT p.phase, clock_timestamp() + :seconds::double precision * interval '1 second'
FROM unnest(:phases::text[]) AS p (phase)
ORDER BY p.phase
ON CONFLICT (phase) DO UPDATE
SET waiting_until = excluded.waiting_until
WHERE w.waiting_until < excluded.waiting_until;

-- name: notify
-- Hints, when the transaction commits, that phases have work, if an instance waits for them; with a prefix, always.
SELECT pg_notify('windlass', :prefix::text || p.phase)::text
FROM unnest(:phases::text[]) AS p (phase)
WHERE :prefix::text <> ''
    OR EXISTS (SELECT FROM windlass.wake AS w WHERE w.phase = p.phase AND w.waiting_until > clock_timestamp());

-- fragment: is_empty(claim)
-- Whether a claim covers no job any more.
NOT EXISTS (
    SELECT FROM unnest({claim}.lanes, {claim}.los, {claim}.his) AS r (lane, lo, hi)
    CROSS JOIN LATERAL (
        SELECT FROM windlass.job AS j
        WHERE j.phase = {claim}.phase
            AND j.lane = r.lane
            AND j.ready_at BETWEEN r.lo AND r.hi
            AND j.token = {claim}.token
        LIMIT 1
    ) AS left_over
)
