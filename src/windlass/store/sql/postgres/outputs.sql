-- What phases produced, once.

-- name: output.phases
-- The phases that jobs have been through, by their own outputs.
SELECT o.job, o.phase
FROM windlass.output AS o
JOIN windlass.job AS j ON j.id = o.job AND j.generation = o.generation
WHERE o.job = ANY(:ids::uuid[])
    AND o.name = '';

-- name: output.put
-- Stores outputs of held jobs under (job, generation, phase, name); the first value stands. Answers one row for each that
-- was asked for by the holder: whether it is new, and the value that stands. No row means the lease is lost.
WITH given AS MATERIALIZED (
    SELECT g.id, g.token, g.name, COALESCE(g.value, 'null') AS value, g.next_phase, g.next_max_attempts
    FROM json_to_recordset(:outputs::json) AS g (
        id uuid, token bigint, name text, value jsonb, next_phase text, next_max_attempts smallint
    )
), held AS MATERIALIZED (
    SELECT j.id, j.generation, j.phase, g.name, g.value, g.next_phase, g.next_max_attempts
    FROM windlass.job AS j
    JOIN given AS g ON g.id = j.id
    WHERE j.token = g.token
    ORDER BY j.id
    FOR NO KEY UPDATE OF j
), stored AS (
    INSERT INTO windlass.output (job, generation, phase, name, at, value, next_phase, next_max_attempts)
    SELECT h.id, h.generation, h.phase, h.name, COALESCE(:now::timestamptz, clock_timestamp()), h.value, h.next_phase, h.next_max_attempts
    FROM held AS h
    ON CONFLICT (job, generation, phase, name) DO NOTHING
    RETURNING job, name
), flagged AS (
    UPDATE windlass.job AS j
    SET flags = j.flags | 32
    FROM held AS h
    WHERE j.id = h.id
        AND j.flags & 32 = 0 -- belt: saves the row's copy where the flag is there already
)
SELECT h.id, h.phase, h.name, s.job IS NOT NULL AS created, COALESCE(o.value, h.value) AS value
FROM held AS h
LEFT JOIN stored AS s ON s.job = h.id AND s.name = h.name
LEFT JOIN windlass.output AS o ON o.job = h.id AND o.generation = h.generation AND o.phase = h.phase AND o.name = h.name;

-- name: outputs
-- All outputs of a job so far, in the order they were stored.
SELECT o.phase, o.name, o.value
FROM windlass.output AS o
WHERE o.job = :id::uuid
ORDER BY o.at, o.phase, o.name;
