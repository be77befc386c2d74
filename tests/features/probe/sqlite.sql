-- name: probe.put
-- Keeps the notes of new jobs.
INSERT INTO windlass_probe (job, note)
SELECT g.value ->> '$.job', g.value ->> '$.note'
FROM json_each(:notes) AS g;

-- name: probe.see
-- Adds to what was seen of a job.
UPDATE windlass_probe
SET seen = seen || :what
WHERE job = :id;

-- name: probe.fold
-- Marks all notes.
UPDATE windlass_probe
SET folded = 1;

-- name: probe.all
-- All notes.
SELECT p.job, p.note, p.seen, p.folded
FROM windlass_probe AS p
ORDER BY p.job;

-- column: agenda.unfolded
-- Whether there are notes that the duty has not marked.
EXISTS (SELECT 1 FROM windlass_probe AS p WHERE NOT p.folded)

-- fragment: pruned
-- The note of a pruned job goes with it.
DELETE FROM windlass_probe
WHERE job IN (SELECT g.value FROM json_each(:ids) AS g);
