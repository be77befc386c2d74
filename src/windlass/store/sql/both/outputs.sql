-- Outputs of phases, each stored once.

-- name: outputs
-- All outputs of a job so far, in the order they were stored.
SELECT o.phase, o.name, o.value
FROM windlass.output AS o
WHERE o.job = :id::uuid
ORDER BY o.at, o.phase, o.name;
