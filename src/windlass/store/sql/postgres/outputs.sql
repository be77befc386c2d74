-- Outputs of phases, each stored once.

-- name: output.phases
-- The phases that jobs have been through, by their own outputs.
SELECT o.job, o.phase
FROM windlass.output AS o
CROSS JOIN LATERAL (SELECT FROM windlass.job AS l WHERE l.id = o.job AND l.generation = o.generation LIMIT 1) AS j
WHERE o.job = ANY(:ids::uuid[])
    AND o.name = ''; -- belt: a phase that a job has left has its own output; this reads fewer rows

-- name: output.put
-- Stores outputs of held jobs under (job, generation, phase, name); the first value is kept. Returns one row for each that
-- was asked for by the holder: whether it is new, and the stored value. No row means the lease is lost.
WITH given AS MATERIALIZED (
    SELECT g.id, g.token, g.name, COALESCE(g.value, 'null') AS value, g.next_phase, g.next_max_attempts
    FROM json_to_recordset(:outputs::json) AS g (
        id uuid, token bigint, name text, value jsonb, next_phase text, next_max_attempts smallint
    )
), held AS MATERIALIZED (
    SELECT j.id, j.generation, j.phase, g.name, g.value, g.next_phase, g.next_max_attempts
    FROM (SELECT o.* FROM given AS o ORDER BY o.id) AS g
    CROSS JOIN LATERAL (
        SELECT l.id, l.generation, l.phase
        FROM windlass.job AS l
        WHERE l.id = g.id
            AND l.token = g.token
        FOR NO KEY UPDATE
    ) AS j
), stored AS (
    INSERT INTO windlass.output (job, generation, phase, name, at, value, next_phase, next_max_attempts)
    SELECT h.id, h.generation, h.phase, h.name, {{now}}, h.value, h.next_phase, h.next_max_attempts
    FROM held AS h
    ON CONFLICT (job, generation, phase, name) DO NOTHING
    RETURNING job, name
), flagged AS (
    UPDATE windlass.job AS j
    SET flags = j.flags | {OUTPUT}
    FROM held AS h
    WHERE j.id = ANY(ARRAY[h.id])
        AND j.flags & {OUTPUT} = 0 -- belt: saves the row's copy where the flag is there already
)
SELECT h.id, h.phase, h.name, (h.id, h.name) IN (SELECT s.job, s.name FROM stored AS s) AS created, COALESCE(o.value, h.value) AS value
FROM held AS h
LEFT JOIN LATERAL (
    SELECT e.value
    FROM windlass.output AS e
    WHERE e.job = h.id
        AND e.generation = h.generation
        AND e.phase = h.phase
        AND e.name = h.name
    LIMIT 1
) AS o ON TRUE;
