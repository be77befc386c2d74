-- Headers of jobs. They are inserted with their job, read by its attempts and by jobs that inherit them, and removed with the job.

-- name: enqueue.headers
-- Stores the headers of jobs that are inserted by the same transaction.
INSERT INTO windlass.job_headers (job, headers)
SELECT g.job, g.headers
FROM {{given(:headers, g, job uuid, headers jsonb)}};

-- name: headers.list
-- The headers of these jobs, those that have some.
SELECT h.job::text AS job, h.headers::text AS headers
FROM windlass.job_headers AS h
WHERE {{one_of(h.job, :ids::uuid[])}};

-- name: headers.drop
-- Removes the headers of jobs whose request is replaced.
DELETE FROM windlass.job_headers AS h
WHERE {{one_of(h.job, :ids::uuid[])}};
