-- Phases of pipelines on the short way: batched, and in the transaction of the step that claims next.

-- name: record.pipeline
-- Records ends of phases: an outcome with a phase to go to (`next`) stores its output and moves its job to the queue of that phase with a
-- fresh budget; one without ends its job, with all its outputs in history. Written are only jobs that touch no other table than `output`
-- (flags), and whose main outputs are those of the phases `passed` and none of `next`: where the pipeline was changed meanwhile, the long way
-- finds the right phase. A job that was asked to stop moves nowhere. Returns one row: the ids that were written, NULL if it is all of them.
-- Outcomes come as columns, as those of `step`; `passed` is an array as text.
WITH clock AS MATERIALIZED (
    SELECT {{now}} AS at
), given AS MATERIALIZED (
    SELECT g.id, g.token, g.next, g.budget, g.passed::text[] AS passed, COALESCE(g.state, 'completed') AS state, g.value::jsonb AS value,
        g.error::jsonb AS error, g.traceback, g.p, g.w, g.r
    FROM unnest(
            :ids::uuid[], :tokens::bigint[], :processors::smallint[], :waited::integer[], :ran::integer[],
            :states::text[], :results::text[], :errors::text[], :tracebacks::text[],
            :nexts::text[], :budgets::smallint[], :passed::text[]
        ) AS g (id, token, p, w, r, state, value, error, traceback, next, budget, passed)
), held AS MATERIALIZED (
    SELECT g.*, j.claimed_at, j.generation, j.attempt, j.phase
    FROM given AS g
    CROSS JOIN LATERAL (
        SELECT l.claimed_at, l.generation, l.attempt, l.phase
        FROM windlass.job AS l
        WHERE l.id = g.id
        LIMIT 1
    ) AS j
    CROSS JOIN LATERAL (
        SELECT COALESCE(array_agg(o.phase), '{}') AS phases
        FROM windlass.output AS o
        WHERE o.job = g.id
            AND o.name = '' -- belt: no verb brings a job into a phase of which it has other outputs alone
    ) AS seen
    WHERE g.passed <@ seen.phases
        AND COALESCE(g.next <> ALL(seen.phases), TRUE)
), moved AS (
    UPDATE windlass.job AS j
    SET phase = h.next,
        max_attempts = h.budget,
        ready_at = c.at,
        started_at = COALESCE(j.started_at, j.claimed_at),
        token = NULL,
        claimed_at = NULL,
        attempt = 0,
        crashes = 0,
        risen = NULL,
        flags = (j.flags & ~({SUSPECT} | {STARTED} | {RECOVERED})) | {OUTPUT}
    FROM held AS h
    CROSS JOIN clock AS c
    WHERE j.id = ANY(ARRAY[h.id])
        AND h.next IS NOT NULL
        AND j.token = h.token
        AND j.cancel_at IS NULL
        AND j.flags & :aside::smallint = 0
    RETURNING j.id, h.token, h.generation, h.attempt, h.claimed_at, h.phase, h.next, h.budget, h.value, h.p, h.w, h.r
), stored AS (
    INSERT INTO windlass.output (job, generation, phase, name, at, value, next_phase, next_max_attempts)
    SELECT m.id, m.generation, m.phase, '', c.at, COALESCE(m.value, 'null'), m.next, m.budget
    FROM moved AS m
    CROSS JOIN clock AS c
    ON CONFLICT (job, generation, phase, name) DO NOTHING
), tried AS (
    INSERT INTO windlass.attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase,
        instance, processor, waited_ms, ran_ms)
    SELECT m.id, m.token, m.claimed_at, c.at, m.generation, m.attempt, 'advanced', m.phase, :instance::uuid, m.p, m.w, m.r
    FROM moved AS m
    CROSS JOIN clock AS c
), finished AS (
    DELETE FROM windlass.job AS j
    USING held AS h
    WHERE j.id = ANY(ARRAY[h.id])
        AND h.next IS NULL
        AND j.token = h.token
        AND j.flags & :aside::smallint = 0
    RETURNING j.*, h.state, h.value, h.error, h.traceback, h.p, h.w, h.r
), history AS (
    INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, started_at, token, lane, generation, attempt,
        crashes, max_attempts, flags, state, kind, phase, correlation, args, result, error, traceback,
        instance, processor, waited_ms, ran_ms, outputs)
    SELECT f.id, f.created_at, c.at, f.claimed_at, f.started_at, f.token, f.lane, f.generation, f.attempt,
        f.crashes, f.max_attempts, f.flags, f.state, f.kind, f.phase, f.correlation, f.args, f.value, f.error, f.traceback,
        :instance::uuid, f.p, f.w, f.r, {{outputs_of(f)}}
    FROM finished AS f
    CROSS JOIN clock AS c
), tidied AS (
    DELETE FROM windlass.output AS o
    USING finished AS f
    WHERE o.job = ANY(ARRAY[f.id])
), counted AS (
    INSERT INTO windlass.delta (phase, queued, processing, completed, failed, cancelled)
    SELECT f.phase, 0, -count(*),
        count(*) FILTER (WHERE f.state = 'completed'),
        count(*) FILTER (WHERE f.state = 'failed'),
        count(*) FILTER (WHERE f.state = 'cancelled')
    FROM finished AS f
    GROUP BY f.phase
    UNION ALL
    SELECT m.phase, 0, -count(*), 0, 0, 0
    FROM moved AS m
    GROUP BY m.phase
    UNION ALL
    SELECT m.next, count(*), 0, 0, 0, 0
    FROM moved AS m
    GROUP BY m.next
)
SELECT CASE WHEN count(*) < :expected::bigint THEN COALESCE(string_agg(w.id::text, ','), '') END AS written
FROM (SELECT m.id FROM moved AS m UNION ALL SELECT f.id FROM finished AS f) AS w;
