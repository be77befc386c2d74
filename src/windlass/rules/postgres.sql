-- Rules: their definitions, and what they have seen. A job's end fires them in its own transaction, after everything else it does:
--
--   shared lock on all definitions (a change of one waits, so no end is judged by half of a change)
--   → fan-ins by (rule, key), locked by `fan_in.open` → hits → the children, through the enqueuer, last of all
--
-- The row of a fan-in serialises the parents that arrive at it; hits are written and read under that lock. A hit's key (parent, rule,
-- generation) makes every end count once, also where it is scanned again later. What an end runs may run on a caller's own
-- connection: JSON is returned as text.

-- name: rule.list
-- Rules by name, or the one of this name.
SELECT {{rule_columns}}
FROM windlass.rule AS r
WHERE (:name::text IS NULL OR r.name = :name)
ORDER BY r.name;

-- name: rule.of
-- The rules that these kinds are parents of, kept as they are until the transaction ends.
SELECT pg_advisory_xact_lock_shared(hashtextextended('windlass.rule', 0))::text;
SELECT {{rule_columns}}
FROM windlass.rule AS r
WHERE r.parents && :kinds::text[] -- belt: rules of other kinds are passed over where they are read
ORDER BY r.name;

-- name: rule.lock
-- Waits for all ends that read rules, and keeps others from beginning to.
SELECT pg_advisory_xact_lock(hashtextextended('windlass.rule', 0))::text AS locked;

-- name: rule.put
-- Adds rules, or changes those of the same names; one that was gone is back.
INSERT INTO windlass.rule AS r (name, defined_at, changed_at, lane, max_attempts, inherit, policy, kind, phase, source, event, parents, key,
    args)
SELECT g.name, c.at, c.at, g.lane, g.max_attempts, g.inherit, g.policy, g.kind, g.phase, g.source, g.event,
    ARRAY(SELECT p.value FROM json_array_elements_text(g.parents) WITH ORDINALITY AS p (value, place) ORDER BY p.place),
    ARRAY(SELECT p.value FROM json_array_elements_text(g.key) WITH ORDINALITY AS p (value, place) ORDER BY p.place),
    g.args
FROM json_to_recordset(:rules::json) AS g (
    name text, lane smallint, max_attempts smallint, inherit boolean, policy text, kind text, phase text, source text, event text,
    parents json, key json, args jsonb
)
CROSS JOIN (SELECT {{now}} AS at) AS c
ORDER BY g.name
ON CONFLICT (name) DO UPDATE
SET changed_at = excluded.changed_at,
    gone_at = NULL,
    lane = excluded.lane,
    max_attempts = excluded.max_attempts,
    inherit = excluded.inherit,
    policy = excluded.policy,
    kind = excluded.kind,
    phase = excluded.phase,
    source = excluded.source,
    event = excluded.event,
    parents = excluded.parents,
    key = excluded.key,
    args = excluded.args;

-- name: rule.kinds.sync
-- Makes the kinds those of the rules: new ones from now on, and no others.
DELETE FROM windlass.rule_kind AS k
WHERE NOT EXISTS (SELECT FROM windlass.rule AS r WHERE k.kind = ANY(r.parents));
INSERT INTO windlass.rule_kind (kind, since)
SELECT DISTINCT p.kind, {{now}}
FROM windlass.rule AS r
CROSS JOIN unnest(r.parents) AS p (kind)
ON CONFLICT (kind) DO NOTHING;

-- name: rule.flag_live
-- Flags jobs of these kinds that are queued or processing, a page of the table at a time, leaving out locked ones; returns where the page
-- ends (NULL at the end of the table), the phases of those that are queued (claims at the same moment pass over rows that are locked here,
-- so they have to be notified to scan again), and how many were left out: they may be about to end, unflagged.
WITH {{unflagged(windlass.job)}}, flagged AS (
    UPDATE windlass.job AS j
    SET flags = j.flags | {RULES}
    FROM found AS f
    WHERE j.id = f.id
    RETURNING j.phase, j.token
)
SELECT CASE WHEN count(*) = :limit THEN (SELECT p.id FROM page AS p ORDER BY p.id DESC LIMIT 1) END AS next,
    ARRAY(SELECT DISTINCT f.phase FROM flagged AS f WHERE f.token IS NULL) AS phases,
    (SELECT count(*) FROM meant) - (SELECT count(*) FROM found) AS left_out
FROM page;

-- name: rule.flag_later
-- The same for jobs that wait or are scheduled, which are not claimed.
WITH {{unflagged(windlass.job_later)}}, flagged AS (
    UPDATE windlass.job_later AS l
    SET flags = l.flags | {RULES}
    FROM found AS f
    WHERE l.id = f.id
)
SELECT CASE WHEN count(*) = :limit THEN (SELECT p.id FROM page AS p ORDER BY p.id DESC LIMIT 1) END AS next, NULL AS phases,
    (SELECT count(*) FROM meant) - (SELECT count(*) FROM found) AS left_out
FROM page;

-- name: rule.ended
-- Ended jobs as their rules see them.
SELECT d.id, d.kind, d.generation, d.state, d.flags & {PRINCIPAL} <> 0 AS asked,
    d.flags & {HEADERS} <> 0 AS has_headers, d.correlation, d.args::text, d.result::text, d.error::text
FROM windlass.job_done AS d
WHERE d.id = ANY(:ids::uuid[])
    AND d.finished_at >= COALESCE(:since::timestamptz, (SELECT {{now}} - interval '1 hour')) -- belt: prunes partitions
ORDER BY d.id;

-- name: hit.drop_earlier
-- Removes what was left of earlier generations of jobs that have made their child now.
DELETE FROM windlass.rule_hit AS h
USING json_to_recordset(:hits::json) AS g (parent uuid, rule text, generation smallint)
WHERE h.parent = ANY(ARRAY[g.parent])
    AND h.rule = g.rule
    AND h.generation < g.generation
    AND h.child IS NULL;

-- name: fan_in.counting
-- The hits that count for these kinds in these rounds.
SELECT h.fan_in, h.kind, h.parent, h.generation, h.state
FROM json_to_recordset(:kinds::json) AS g (fan_in bigint, round integer, kind text)
CROSS JOIN LATERAL (
    SELECT t.*
    FROM windlass.rule_hit AS t
    WHERE t.fan_in = g.fan_in
        AND t.round = g.round
        AND t.kind = g.kind
        AND t.counts
    LIMIT 1
) AS h;

-- name: fan_in.earlier
-- The rounds that these jobs belong to already, through an earlier end of theirs.
SELECT h.parent, h.rule, h.generation, h.fan_in, h.round
FROM json_to_recordset(:hits::json) AS g (parent uuid, rule text)
CROSS JOIN LATERAL (SELECT t.* FROM windlass.rule_hit AS t WHERE t.parent = g.parent AND t.rule = g.rule OFFSET 0) AS h
WHERE h.fan_in IS NOT NULL;

-- name: fan_in.parts
-- What counts in the rounds of these fan-ins, and whether its principal was erased.
SELECT h.fan_in, h.kind, h.parent, h.asked,
    h.asked
        AND NOT EXISTS (SELECT FROM windlass.job_done AS d WHERE d.id = h.parent OFFSET 0)
        AND NOT EXISTS (SELECT FROM windlass.job AS j WHERE j.id = h.parent OFFSET 0)
        AND NOT EXISTS (SELECT FROM windlass.job_later AS l WHERE l.id = h.parent OFFSET 0) AS lost,
    h.data::text
FROM json_to_recordset(:fan_ins::json) AS g (id bigint, round integer)
CROSS JOIN LATERAL (
    SELECT t.*
    FROM windlass.rule_hit AS t
    WHERE t.fan_in = g.id
        AND t.round = g.round
        AND t.counts
    OFFSET 0
) AS h;

-- name: fan_in.close
-- Ends rounds whose children are made (or could not be): the hits name the child, and the fan-in is idle until its next round.
WITH part AS MATERIALIZED (
    SELECT p.parent, p.rule, p.generation, g.child, g.error
    FROM json_to_recordset(:fan_ins::json) AS g (id bigint, round integer, child uuid, error text)
    CROSS JOIN LATERAL (
        SELECT t.parent, t.rule, t.generation
        FROM windlass.rule_hit AS t
        WHERE t.fan_in = g.id
            AND t.round = g.round
            AND t.counts
        OFFSET 0
    ) AS p
)
UPDATE windlass.rule_hit AS h
SET child = p.child,
    error = p.error,
    data = NULL
FROM part AS p
WHERE h.parent = ANY(ARRAY[p.parent])
    AND h.rule = p.rule
    AND h.generation = p.generation;
UPDATE windlass.fan_in AS f
SET round = g.round + 1,
    missing = g.width,
    bad = 0,
    opened_at = NULL
FROM json_to_recordset(:fan_ins::json) AS g (id bigint, round integer, width smallint)
WHERE f.id = ANY(ARRAY[g.id]);

-- name: fan_in.undo
-- Forgets what has arrived for children of a rule that are not made; returns the parents, to be counted again.
WITH gone AS (
    DELETE FROM windlass.fan_in AS f
    WHERE f.rule = :rule
        AND f.opened_at IS NOT NULL
    RETURNING f.id, f.round
)
DELETE FROM windlass.rule_hit AS h
USING gone AS g
WHERE h.fan_in = g.id
    AND h.round = g.round
RETURNING h.parent;

-- name: fan_in.list
-- Fan-ins that at least one parent has reached, oldest first, a row for each hit that counts.
SELECT f.id, f.rule, f.key, f.round, f.bad, f.opened_at, r.policy, to_jsonb(r.parents)::text AS parents, h.kind, h.parent, h.state, h.at
FROM (
    SELECT o.*
    FROM windlass.fan_in AS o
    WHERE o.opened_at IS NOT NULL
        AND (:rule::text IS NULL OR o.rule = :rule)
    ORDER BY o.id
    LIMIT :limit
) AS f
JOIN windlass.rule AS r ON r.name = f.rule
JOIN windlass.rule_hit AS h ON h.fan_in = f.id AND h.round = f.round
WHERE h.counts
ORDER BY f.id, h.at, h.kind;

-- name: prune.fan_ins
-- Removes idle fan-ins that have no hits left, and those that were cancelled when the parent that failed them can no longer be retried.
WITH old AS MATERIALIZED (
    SELECT f.id
    FROM windlass.fan_in AS f
    WHERE (
            f.opened_at IS NULL -- belt: a parent may arrive between the read of the hits and the lock
            AND NOT EXISTS (SELECT FROM windlass.rule_hit AS h WHERE h.fan_in = f.id)
        )
        OR (
            f.bad > 0
            AND NOT EXISTS (SELECT FROM windlass.rule AS r WHERE r.name = f.rule AND r.policy = 'wait')
            AND NOT EXISTS (
                SELECT FROM windlass.rule_hit AS h
                WHERE h.fan_in = f.id
                    AND h.round = f.round
                    AND h.counts
                    AND h.state <> 'completed'
                    AND (
                        EXISTS (SELECT FROM windlass.job_done AS d WHERE d.id = h.parent)
                        OR EXISTS (SELECT FROM windlass.job AS j WHERE j.id = h.parent)
                        OR EXISTS (SELECT FROM windlass.job_later AS l WHERE l.id = h.parent)
                    )
            )
        )
    ORDER BY f.rule, f.key
    FOR UPDATE OF f SKIP LOCKED
)
DELETE FROM windlass.fan_in AS f
USING old AS o
WHERE f.id = o.id;

-- column: agenda.new_kinds
-- Whether kinds have new rules, so that their jobs are to be scanned (as rule.kinds.new judges it).
EXISTS (
        SELECT FROM windlass.rule_kind AS k
        WHERE k.looks = 0
            OR (k.looks = 1 AND k.since < clock.at - interval '15 seconds')
    )

-- fragment: unflagged(table)
-- CTEs: a page of a table, the jobs of that page that are of these kinds and not flagged yet, and those of them that no session has locked.
page AS MATERIALIZED (
    SELECT j.id, j.kind, j.flags
    FROM {table} AS j
    WHERE j.id > :after::uuid
    ORDER BY j.id
    LIMIT :limit
), meant AS MATERIALIZED (
    SELECT p.id
    FROM page AS p
    WHERE p.kind = ANY(:kinds::text[])
        AND p.flags & {RULES} = 0
), found AS MATERIALIZED (
    SELECT j.id
    FROM {table} AS j
    JOIN meant AS m ON m.id = j.id
    ORDER BY j.id
    FOR NO KEY UPDATE OF j SKIP LOCKED
)

-- fragment: rule_columns
-- What is read of a rule.
r.name, to_jsonb(r.parents)::text AS parents, r.kind, r.phase, to_jsonb(r.key)::text AS key, r.args::text AS args,
    r.policy, r.lane, r.max_attempts, r.inherit, r.source, r.event,
    r.defined_at, r.changed_at, r.gone_at
