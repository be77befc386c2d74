-- Searches for jobs; sql/both/search.sql has the rest, and the reasons.

-- name: search.scan
-- A window of jobs of all wanted tables, newest first: those that meet the conditions, then the oldest of the window and how many jobs it has.
-- Each table is read before an id of its own: the smallest one leaves the table out.
WITH seen AS MATERIALIZED (
    SELECT s.id, CASE WHEN {{is_found(s)}} THEN TRUE ELSE FALSE END AS ok
    FROM (
        SELECT u.*
        FROM (
            (
                SELECT {{live_candidate(j)}}
                FROM windlass.job AS j
                WHERE j.id < :live::uuid
                ORDER BY j.id DESC
                LIMIT :limit::bigint
            )
            UNION ALL
            (
                SELECT {{later_candidate(l)}}
                FROM windlass.job_later AS l
                WHERE l.id < :later::uuid
                ORDER BY l.id DESC
                LIMIT :limit::bigint
            )
            UNION ALL
            (
                SELECT {{ended_candidate(d)}}
                FROM windlass.job_done AS d
                WHERE d.id < :ended::uuid
                ORDER BY d.id DESC
                LIMIT :limit::bigint
            )
            UNION ALL
            (
                SELECT {{ended_candidate(f)}}
                FROM windlass.job_done AS f
                WHERE {{in_group(f.state, f.id, 'failed', :failed::uuid)}}
                    AND f.state <> 'completed' -- belt: implied; the planner needs it to prove the partial index
                ORDER BY f.state DESC, f.id DESC
                LIMIT :limit::bigint
            )
            UNION ALL
            (
                SELECT {{ended_candidate(x)}}
                FROM windlass.job_done AS x
                WHERE {{in_group(x.state, x.id, 'cancelled', :cancelled::uuid)}}
                    AND x.state <> 'completed' -- belt: implied; the planner needs it to prove the partial index
                ORDER BY x.state DESC, x.id DESC
                LIMIT :limit::bigint
            )
        ) AS u
        ORDER BY u.id DESC
        LIMIT :limit::bigint
    ) AS s
)
{{window(seen)}};

-- name: search.held
-- Processing jobs, at most so many; the rows of claims lead to them.
SELECT j.id
FROM windlass.claim AS c
CROSS JOIN LATERAL unnest(c.lanes, c.los, c.his) AS r (lane, lo, hi)
CROSS JOIN LATERAL (
    SELECT h.id
    FROM windlass.job AS h
    WHERE h.phase = c.phase
        AND h.lane = r.lane
        AND h.ready_at BETWEEN r.lo AND r.hi
        AND h.token = c.token
    LIMIT :limit::bigint -- belt: the outer one decides; keeps the look-up from becoming a join
) AS j
LIMIT :limit::bigint;

-- name: search.fetch
-- Those of these jobs that still meet the conditions, with the columns of `get`.
WITH found AS MATERIALIZED (
    SELECT s.id
    FROM ({{candidates}}) AS s
    WHERE {{is_found(s)}}
)
{{live_jobs((SELECT l.* FROM windlass.job AS l WHERE l.id = ANY(ARRAY(SELECT f.id FROM found AS f))))}}
UNION ALL
{{later_jobs((SELECT l.* FROM windlass.job_later AS l WHERE l.id = ANY(ARRAY(SELECT f.id FROM found AS f))))}}
UNION ALL
{{ended_jobs}}
WHERE d.id = ANY(ARRAY(SELECT f.id FROM found AS f));

-- fragment: last_error(job)
-- The error of the last attempt of a job that waits.
(SELECT a.error FROM {{last_attempt({job})}} AS a)

-- fragment: asked_args
-- Nothing: the conditions on arguments are read where they are used.

-- fragment: has_args(job)
-- Whether the arguments of a job meet the conditions on them.
NOT EXISTS (
    SELECT 1
    FROM json_to_recordset(:args::json) AS c (path text[], any_of jsonb, op text, negated boolean)
    CROSS JOIN LATERAL (SELECT {job}.args #> c.path AS value OFFSET 0) AS v
    WHERE c.negated = COALESCE(
            CASE
                WHEN c.op IS NULL THEN jsonb_typeof(v.value) NOT IN ('object', 'array') AND c.any_of @> v.value
                WHEN jsonb_typeof(v.value) = 'number' THEN
                    CASE c.op
                        WHEN '<' THEN (v.value #>> '{}')::numeric < (c.any_of ->> 0)::numeric
                        WHEN '<=' THEN (v.value #>> '{}')::numeric <= (c.any_of ->> 0)::numeric
                        WHEN '>' THEN (v.value #>> '{}')::numeric > (c.any_of ->> 0)::numeric
                        ELSE (v.value #>> '{}')::numeric >= (c.any_of ->> 0)::numeric
                    END
            END,
            FALSE
        )
)
