-- Log lines of attempts: one row for each save.

-- name: job_log.put
-- Adds parts; a part that is there already is kept, so that a repeated call changes nothing.
INSERT INTO windlass.job_log (job, token, part, at, attempt, phase, lines)
SELECT g.job, g.token, g.part, c.at, g.attempt, g.phase, g.lines
FROM {{given(:parts, g, job uuid, token bigint, part integer, attempt smallint, phase text, lines jsonb)}}
CROSS JOIN (SELECT {{now}} AS at) AS c
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (job, token, part) DO NOTHING;

-- name: job_log.read
-- All parts of a job, in order.
SELECT l.token, l.phase, l.attempt, l.lines::text AS lines
FROM windlass.job_log AS l
WHERE l.job = :id::uuid
ORDER BY l.token, l.part;
