-- Jobs that people watch: all of them in one read.

-- name: watched.jobs
-- What changes with every event of a job: where it is, which attempt holds it, and the time of its progress. Jobs that are gone have no row.
SELECT j.id, 'job' AS place, j.generation, j.attempt, j.token, j.claimed_at AS at, p.at AS saved_at
FROM windlass.job AS j
LEFT JOIN windlass.checkpoint AS p ON {{found_by(p.job, j.id)}}
WHERE {{one_of(j.id, :ids::uuid[])}}
UNION ALL
SELECT l.id, l.reason, l.generation, l.attempt, NULL::bigint, l.run_at, p.at
FROM windlass.job_later AS l
LEFT JOIN windlass.checkpoint AS p ON {{found_by(p.job, l.id)}}
WHERE {{one_of(l.id, :ids::uuid[])}}
UNION ALL
SELECT d.id, d.state, d.generation, d.attempt, d.token, d.finished_at, NULL::timestamptz
FROM windlass.job_done AS d
WHERE {{one_of(d.id, :ids::uuid[])}};
