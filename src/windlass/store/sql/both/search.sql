-- Searches for jobs by many conditions. A search reads a window of rows by id, from newest to oldest, in one statement over the tables that can
-- hold the wanted states: a job that moves between tables meanwhile is neither lost nor found twice. Every condition is a bound parameter;
-- NULL asks for nothing. Arguments and errors are read only if a condition needs them. CASE WHEN: outside of it and of WHERE, SQLite evaluates
-- all of a conjunction, which takes ten times as long.

-- name: search.kind
-- A window of failed and cancelled jobs of one kind: those that meet the conditions, then the oldest of the window and how many jobs it has.
WITH {{asked_args}} seen AS MATERIALIZED (
    SELECT s.id, CASE WHEN {{is_found(s)}} THEN TRUE ELSE FALSE END AS ok
    FROM (
        SELECT {{ended_candidate(d)}}
        FROM windlass.job_done AS d
        WHERE {{in_group(d.kind, d.id, :kind::text, :before::uuid)}}
            AND d.state <> 'completed' -- belt: of the states that are asked for; the planner needs it to prove the partial index
        ORDER BY {{newest_of(d.kind, d.id)}}
        LIMIT :limit::bigint
    ) AS s
)
{{window(seen)}};

-- name: search.keyed
-- Ended jobs that held one of these unique keys, from newest to oldest.
SELECT e.id
FROM (
    SELECT d.id
    FROM windlass.job_done AS d
    WHERE {{one_of(d.key, :keys::text[])}}
    OFFSET 0
) AS e
WHERE e.id < :before::uuid
ORDER BY e.id DESC
LIMIT :limit::bigint;

-- name: search.ids
-- Those of these jobs that meet the conditions.
WITH {{asked_args}} found AS (
    SELECT s.id
    FROM ({{candidates}}) AS s
    WHERE {{is_found(s)}}
)
SELECT f.id
FROM found AS f;

-- name: search.queued
-- Jobs in the queue of a phase, at most so many.
SELECT j.id
FROM windlass.job AS j
WHERE j.phase = :phase::text
    AND j.token IS NULL
LIMIT :limit::bigint;

-- fragment: candidates
-- These jobs (:ids), wherever they are.
SELECT {{live_candidate(j)}}
FROM windlass.job AS j
WHERE {{one_of(j.id, :ids::uuid[])}}
UNION ALL
SELECT {{later_candidate(l)}}
FROM windlass.job_later AS l
WHERE {{one_of(l.id, :ids::uuid[])}}
UNION ALL
SELECT {{ended_candidate(d)}}
FROM windlass.job_done AS d
WHERE {{one_of(d.id, :ids::uuid[])}}

-- fragment: window(seen)
-- The result of a window: the found jobs, then its oldest job with the number of jobs that were searched.
SELECT w.id, NULL::bigint AS searched
FROM {seen} AS w
WHERE w.ok
UNION ALL
SELECT o.id, o.searched
FROM (
    SELECT w.id, (SELECT count(*) FROM {seen}) AS searched
    FROM {seen} AS w
    ORDER BY w.id
    LIMIT 1
) AS o

-- fragment: live_candidate(job)
-- The columns that conditions are about, of a queued or processing job.
{job}.id, {job}.kind, {job}.phase, CASE WHEN {job}.token IS NULL THEN 'queued' ELSE 'processing' END AS state, {job}.lane, {job}.attempt,
{job}.correlation, {job}.created_at, NULL::timestamptz AS finished_at,
CASE WHEN :instances::uuid[] IS NOT NULL OR :not_instances::uuid[] IS NOT NULL THEN (
    SELECT c.instance
    FROM windlass.claim AS c
    WHERE c.token = {job}.token
) END AS instance,
NULL::text AS key, NULL::jsonb AS error, CASE WHEN :args::text IS NOT NULL THEN {job}.args END AS args

-- fragment: later_candidate(job)
-- The same columns of a job that waits.
{job}.id, {job}.kind, {job}.phase,
CASE WHEN {job}.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN {job}.reason = 'inbox' THEN 'queued' ELSE 'waiting' END AS state,
{job}.lane, {job}.attempt, {job}.correlation, {job}.created_at, NULL::timestamptz AS finished_at, NULL::uuid AS instance, NULL::text AS key,
CASE WHEN {{needs_error}} AND {job}.started_at IS NOT NULL THEN {{last_error({job})}} END AS error,
CASE WHEN :args::text IS NOT NULL THEN {job}.args END AS args

-- fragment: ended_candidate(job)
-- The same columns of an ended job.
{job}.id, {job}.kind, {job}.phase, {job}.state, {job}.lane, {job}.attempt, {job}.correlation, {job}.created_at, {job}.finished_at,
{job}.instance, {job}.key, CASE WHEN {{needs_error}} THEN {job}.error END AS error, CASE WHEN :args::text IS NOT NULL THEN {job}.args END AS args

-- fragment: needs_error
-- A condition is about errors.
(
    :errors::text[] IS NOT NULL OR :not_errors::text[] IS NOT NULL OR :exceptions::text[] IS NOT NULL OR :not_exceptions::text[] IS NOT NULL
)

-- fragment: is_found(job)
-- Whether a job meets all conditions of a search and may be seen by the actor.
(:states::text[] IS NULL OR {{one_of({job}.state, :states::text[])}})
AND (
    :kinds::text[] IS NULL
    OR {{one_of({job}.kind, :kinds::text[])}}
    OR {{begins_with({job}.kind, :kind_prefixes::text[])}}
)
AND {{none_of({job}.kind, :not_kinds::text[])}}
AND {{begins_otherwise({job}.kind, :not_kind_prefixes::text[])}}
AND (
    :phases::text[] IS NULL
    OR {{one_of({job}.phase, :phases::text[])}}
    OR {{begins_with({job}.phase, :phase_prefixes::text[])}}
)
AND {{none_of({job}.phase, :not_phases::text[])}}
AND {{begins_otherwise({job}.phase, :not_phase_prefixes::text[])}}
AND {{none_of({job}.id, :not_ids::uuid[])}}
AND (:correlations::text[] IS NULL OR {{one_of(COALESCE({job}.correlation, {job}.id::text), :correlations::text[])}})
AND {{none_of(COALESCE({job}.correlation, {job}.id::text), :not_correlations::text[])}}
AND (:lanes::smallint[] IS NULL OR {{one_of({job}.lane, :lanes::smallint[])}})
AND (:attempt_low::integer IS NULL OR {job}.attempt >= :attempt_low::integer)
AND (:attempt_high::integer IS NULL OR {job}.attempt <= :attempt_high::integer)
AND (:attempts::smallint[] IS NULL OR {{one_of({job}.attempt, :attempts::smallint[])}})
AND {{none_of({job}.attempt, :not_attempts::smallint[])}}
AND (:created_low::timestamptz IS NULL OR {job}.created_at >= :created_low::timestamptz)
AND (:created_high::timestamptz IS NULL OR {job}.created_at < :created_high::timestamptz)
AND COALESCE({job}.finished_at >= :finished_low::timestamptz, TRUE)
AND COALESCE({job}.finished_at < :finished_high::timestamptz, TRUE)
AND (:instances::uuid[] IS NULL OR {{one_of({job}.instance, :instances::uuid[])}})
AND {{none_of({job}.instance, :not_instances::uuid[])}}
AND (:errors::text[] IS NULL OR {{one_of({job}.error ->> 'code', :errors::text[])}})
AND {{none_of({job}.error ->> 'code', :not_errors::text[])}}
AND (:exceptions::text[] IS NULL OR {{one_of({job}.error ->> 'type', :exceptions::text[])}})
AND {{none_of({job}.error ->> 'type', :not_exceptions::text[])}}
{{sought({job})}}
{{in_scope({job})}}
AND (
    :args::text IS NULL -- belt: no conditions are met by every job; spares the check of each row
    OR {{has_args({job})}}
)

-- fragment: none_of(value, list)
-- Whether a value is none of a list, which is a parameter; NULL is none of any list.
(
    {list} IS NULL -- belt on sqlite: what is not given is an empty list there
    OR NOT COALESCE({{one_of({value}, {list})}}, FALSE)
)

-- fragment: begins_otherwise(column, list)
-- Whether a column begins with none of the texts of a list, which is a parameter.
(
    {list} IS NULL -- belt on sqlite: what is not given is an empty list there
    OR NOT {{begins_with({column}, {list})}}
)

-- fragment: is_of_actor(record)
-- Whether an actor may see an operation or an act: all of them, those of its tenant, or its own, by subject, issuer and tenant.
(
    :sees::text = 'all'
    OR (
        {record}.tenant {{is_same}} :tenant::text
        AND (
            :sees::text = 'tenant'
            OR ({record}.subject = :subject::text AND {record}.issuer {{is_same}} :issuer::text)
        )
    )
)
