-- name: probe.put
-- Keeps the notes of new jobs.
INSERT INTO windlass.probe (job, note)
SELECT g.job, g.note
FROM json_to_recordset(:notes::json) AS g (job uuid, note text);

-- name: probe.see
-- Adds to what was seen of a job.
UPDATE windlass.probe AS p
SET seen = p.seen || :what
WHERE p.job = :id::uuid;

-- name: probe.fold
-- Marks all notes.
UPDATE windlass.probe AS p
SET folded = TRUE;

-- name: probe.all
-- All notes.
SELECT p.job::text, p.note, p.seen, p.folded
FROM windlass.probe AS p
ORDER BY p.job;

-- column: agenda.unfolded
-- Whether there are notes that the duty has not marked.
EXISTS (SELECT FROM windlass.probe AS p WHERE NOT p.folded)

-- fragment: pruned
-- The note of a pruned job goes with it.
, pruned_probes AS (
    DELETE FROM windlass.probe AS p
    USING gone AS g
    WHERE p.job = g.id
)
