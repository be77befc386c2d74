-- Outputs of phases, each stored once.

-- name: output.phases
-- The phases that jobs have been through, by their own outputs.
SELECT o.job, o.phase
FROM json_each(:ids) AS g
CROSS JOIN windlass_job AS j ON j.id = g.value
CROSS JOIN windlass_output AS o ON o.job = j.id AND o.generation = j.generation
WHERE o.name = ''; -- belt: a phase that a job has left has its own output; this reads fewer rows

-- name: output.put
-- Stores outputs of held jobs under (job, generation, phase, name); the first value is kept. Returns one row for each that
-- was asked for by the holder: whether it is new, and the stored value. No row means the lease is lost.
SELECT j.id, j.phase, g.value ->> '$.name' AS name, o.job IS NULL AS created, COALESCE(o.value, g.value -> '$.value') AS value
FROM json_each(:outputs) AS g
CROSS JOIN windlass_job AS j ON j.id = g.value ->> '$.id'
LEFT JOIN windlass_output AS o
    ON o.job = j.id AND o.generation = j.generation AND o.phase = j.phase AND o.name = g.value ->> '$.name'
WHERE j.token = g.value ->> '$.token';
INSERT INTO windlass_output (job, generation, phase, name, at, value, next_phase, next_max_attempts)
SELECT j.id, j.generation, j.phase, g.value ->> '$.name', :now, g.value -> '$.value', g.value ->> '$.next_phase',
    g.value ->> '$.next_max_attempts'
FROM json_each(:outputs) AS g
CROSS JOIN windlass_job AS j ON j.id = g.value ->> '$.id'
WHERE j.token = g.value ->> '$.token'
ON CONFLICT (job, generation, phase, name) DO NOTHING;
UPDATE windlass_job
SET flags = flags | {OUTPUT}
FROM json_each(:outputs) AS g
WHERE windlass_job.id = g.value ->> '$.id'
    AND windlass_job.token = g.value ->> '$.token';
