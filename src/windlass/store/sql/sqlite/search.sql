-- Searches for jobs; sql/both/search.sql has the rest, and the reasons.

-- name: search.scan
-- A window of jobs of all wanted tables, newest first: those that meet the conditions, then the oldest of the window and how many jobs it has.
-- Each table is read before an id of its own: the smallest one leaves the table out.
WITH {{asked_args}} seen AS MATERIALIZED (
    SELECT s.id, CASE WHEN {{is_found(s)}} THEN TRUE ELSE FALSE END AS ok
    FROM (
        SELECT {{live_candidate(j)}}
        FROM windlass_job AS j
        WHERE j.id < :live
        UNION ALL
        SELECT {{later_candidate(l)}}
        FROM windlass_job_later AS l
        WHERE l.id < :later
        UNION ALL
        SELECT {{ended_candidate(d)}}
        FROM windlass_job_done AS d
        WHERE d.id < :ended
        UNION ALL
        SELECT {{ended_candidate(f)}}
        FROM windlass_job_done AS f
        WHERE f.state = 'failed'
            AND f.state <> 'completed' -- belt: implied; the planner needs it to prove the partial index
            AND f.id < :failed
        UNION ALL
        SELECT {{ended_candidate(x)}}
        FROM windlass_job_done AS x
        WHERE x.state = 'cancelled'
            AND x.state <> 'completed' -- belt: implied; the planner needs it to prove the partial index
            AND x.id < :cancelled
        ORDER BY id DESC
        LIMIT :limit
    ) AS s
)
{{window(seen)}};

-- name: search.held
-- Processing jobs, at most so many. Queues are read from their old end, where nearly all of them are; the scan ends with the last one of
-- the number that is known, or after so many rows.
SELECT h.id
FROM (SELECT j.id, j.token FROM windlass_job AS j LIMIT 200000) AS h
WHERE h.token IS NOT NULL
LIMIT :limit;

-- name: search.fetch
-- Those of these jobs that still meet the conditions, with the columns of `get`.
WITH {{asked_args}} found AS MATERIALIZED (
    SELECT s.id
    FROM ({{candidates}}) AS s
    WHERE {{is_found(s)}}
)
{{live_jobs}}
WHERE j.id IN (SELECT f.id FROM found AS f)
UNION ALL
{{later_jobs}}
WHERE l.id IN (SELECT f.id FROM found AS f)
UNION ALL
{{ended_jobs}}
WHERE d.id IN (SELECT f.id FROM found AS f);

-- fragment: last_error(job)
-- The error of the last attempt of a job that waits.
(SELECT a.error FROM windlass_attempt AS a WHERE {{is_last_attempt(a, {job})}})

-- fragment: asked_args
-- The conditions on arguments, read once: a row for each way to read the path and each value.
asked AS MATERIALIZED (
    SELECT c.key AS term, c.value ->> '$.negated' AS negated, c.value ->> '$.op' AS op, q.value AS path, v.type, v.value,
        q.key = 0 AND v.key = 0 AS is_first
    FROM json_each(:args) AS c
    CROSS JOIN json_each(c.value, '$.paths') AS q
    CROSS JOIN json_each(c.value, '$.any_of') AS v
),

-- fragment: has_args(job)
-- Whether the arguments of a job meet the conditions on them.
NOT EXISTS (
    SELECT 1
    FROM asked AS t
    WHERE t.is_first -- belt: one check of each term, not for each of its values
        AND t.negated = EXISTS (
            SELECT 1
            FROM asked AS o
            WHERE o.term = t.term
                AND CASE
                    WHEN o.type IN ('integer', 'real') THEN json_type({job}.args, o.path) IN ('integer', 'real')
                    ELSE json_type({job}.args, o.path) = o.type
                END
                AND CASE o.op
                    WHEN '<' THEN json_extract({job}.args, o.path) < o.value
                    WHEN '<=' THEN json_extract({job}.args, o.path) <= o.value
                    WHEN '>' THEN json_extract({job}.args, o.path) > o.value
                    WHEN '>=' THEN json_extract({job}.args, o.path) >= o.value
                    ELSE json_extract({job}.args, o.path) IS o.value
                END
        )
)
