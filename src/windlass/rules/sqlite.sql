-- Rules: their definitions, and what they have seen; the PostgreSQL file describes the protocol. With one writer at a time nothing needs a
-- lock, and no definition can change in the middle of an end.

-- name: rule.list
-- Rules by name, or the one of this name.
SELECT {{rule_columns}}
FROM windlass_rule AS r
WHERE (:name IS NULL OR r.name = :name)
ORDER BY r.name;

-- name: rule.of
-- The rules that these kinds are parents of.
SELECT {{rule_columns}}
FROM windlass_rule AS r
WHERE EXISTS (SELECT 1 FROM json_each(r.parents) AS p WHERE p.value IN (SELECT g.value FROM json_each(:kinds) AS g)) -- belt: rules of other kinds are passed over where they are read
ORDER BY r.name;

-- name: rule.lock
-- Nothing to lock: there is one writer at a time.
SELECT NULL AS locked
WHERE FALSE; -- belt: returns nothing by design

-- name: rule.put
-- Adds rules, or changes those of the same names; one that was gone is back.
INSERT INTO windlass_rule (name, defined_at, changed_at, lane, max_attempts, inherit, policy, kind, phase, source, event, parents, key,
    args)
SELECT g.value ->> '$.name', :now, :now, g.value ->> '$.lane', g.value ->> '$.max_attempts', g.value ->> '$.inherit',
    g.value ->> '$.policy', g.value ->> '$.kind', g.value ->> '$.phase', g.value ->> '$.source', g.value ->> '$.event',
    g.value -> '$.parents', g.value -> '$.key', g.value -> '$.args'
FROM json_each(:rules) AS g
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
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
DELETE FROM windlass_rule_kind
WHERE kind NOT IN (SELECT p.value FROM windlass_rule AS r CROSS JOIN json_each(r.parents) AS p);
INSERT INTO windlass_rule_kind (kind, since)
SELECT DISTINCT p.value, :now
FROM windlass_rule AS r
CROSS JOIN json_each(r.parents) AS p
WHERE TRUE -- belt: SQLite's grammar needs a WHERE between SELECT and ON CONFLICT
ON CONFLICT (kind) DO NOTHING;

-- name: rule.flag_live
-- Flags jobs of these kinds that are queued or processing, a page of the table at a time; returns where the page ends (NULL at the end of
-- the table), no phases and none left out: there is one writer, so no claim passes over a row that is locked.
UPDATE windlass_job
SET flags = flags | {RULES}
WHERE id IN (SELECT j.id FROM windlass_job AS j WHERE j.id > :after ORDER BY j.id LIMIT :limit)
    AND kind IN (SELECT g.value FROM json_each(:kinds) AS g)
    AND flags & {RULES} = 0; -- belt: saves the write where the flag is there already
SELECT CASE WHEN count(*) = :limit THEN max(p.id) END AS next, NULL AS phases, 0 AS left_out
FROM (SELECT j.id FROM windlass_job AS j WHERE j.id > :after ORDER BY j.id LIMIT :limit) AS p;

-- name: rule.flag_later
-- The same for jobs that wait or are scheduled.
UPDATE windlass_job_later
SET flags = flags | {RULES}
WHERE id IN (SELECT l.id FROM windlass_job_later AS l WHERE l.id > :after ORDER BY l.id LIMIT :limit)
    AND kind IN (SELECT g.value FROM json_each(:kinds) AS g)
    AND flags & {RULES} = 0; -- belt: saves the write where the flag is there already
SELECT CASE WHEN count(*) = :limit THEN max(p.id) END AS next, NULL AS phases, 0 AS left_out
FROM (SELECT l.id FROM windlass_job_later AS l WHERE l.id > :after ORDER BY l.id LIMIT :limit) AS p;

-- name: rule.ended
-- Ended jobs as their rules see them.
SELECT d.id, d.kind, d.generation, d.state, d.flags & {PRINCIPAL} <> 0 AS asked,
    d.flags & {HEADERS} <> 0 AS has_headers, d.correlation, d.args, d.result, d.error
FROM windlass_job_done AS d
WHERE d.id IN (SELECT g.value FROM json_each(:ids) AS g)
ORDER BY d.id;

-- name: hit.drop_earlier
-- Removes what was left of earlier generations of jobs that have made their child now.
DELETE FROM windlass_rule_hit
WHERE child IS NULL
    AND EXISTS (
        SELECT 1
        FROM json_each(:hits) AS g
        WHERE g.value ->> '$.parent' = windlass_rule_hit.parent
            AND g.value ->> '$.rule' = windlass_rule_hit.rule
            AND g.value ->> '$.generation' > windlass_rule_hit.generation
    );

-- name: fan_in.counting
-- The hits that count for these kinds in these rounds.
SELECT h.fan_in, h.kind, h.parent, h.generation, h.state
FROM json_each(:kinds) AS g
CROSS JOIN windlass_rule_hit AS h
    ON h.fan_in = g.value ->> '$.fan_in' AND h.round = g.value ->> '$.round' AND h.kind = g.value ->> '$.kind'
WHERE h.counts;

-- name: fan_in.earlier
-- The rounds that these jobs belong to already, through an earlier end of theirs.
SELECT h.parent, h.rule, h.generation, h.fan_in, h.round
FROM json_each(:hits) AS g
CROSS JOIN windlass_rule_hit AS h ON h.parent = g.value ->> '$.parent' AND h.rule = g.value ->> '$.rule'
WHERE h.fan_in IS NOT NULL;

-- name: fan_in.parts
-- What counts in the rounds of these fan-ins, and whether its principal was erased.
SELECT h.fan_in, h.kind, h.parent, h.asked,
    h.asked
        AND NOT EXISTS (SELECT 1 FROM windlass_job_done AS d WHERE d.id = h.parent)
        AND NOT EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = h.parent)
        AND NOT EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = h.parent) AS lost,
    h.data
FROM json_each(:fan_ins) AS g
CROSS JOIN windlass_rule_hit AS h ON h.fan_in = g.value ->> '$.id' AND h.round = g.value ->> '$.round'
WHERE h.counts;

-- name: fan_in.close
-- Ends rounds whose children are made (or could not be): the hits name the child, and the fan-in is idle until its next round.
UPDATE windlass_rule_hit
SET child = g.value ->> '$.child',
    error = g.value ->> '$.error',
    data = NULL
FROM json_each(:fan_ins) AS g
WHERE windlass_rule_hit.fan_in = g.value ->> '$.id'
    AND windlass_rule_hit.round = g.value ->> '$.round'
    AND windlass_rule_hit.counts;
UPDATE windlass_fan_in
SET round = (g.value ->> '$.round') + 1,
    missing = g.value ->> '$.width',
    bad = 0,
    opened_at = NULL
FROM json_each(:fan_ins) AS g
WHERE windlass_fan_in.id = g.value ->> '$.id';

-- name: fan_in.undo
-- Forgets what has arrived for children of a rule that are not made; returns the parents, to be counted again.
DELETE FROM windlass_rule_hit
WHERE EXISTS (
        SELECT 1
        FROM windlass_fan_in AS f
        WHERE f.id = windlass_rule_hit.fan_in
            AND f.round = windlass_rule_hit.round
            AND f.rule = :rule
            AND f.opened_at IS NOT NULL -- belt: an idle fan-in has no hits in its round
    )
RETURNING parent;
DELETE FROM windlass_fan_in
WHERE rule = :rule
    AND opened_at IS NOT NULL;

-- name: fan_in.list
-- Fan-ins that at least one parent has reached, oldest first, a row for each hit that counts.
SELECT f.id, f.rule, f.key, f.round, f.bad, f.opened_at, r.policy, r.parents, h.kind, h.parent, h.state, h.at
FROM (
    SELECT o.*
    FROM windlass_fan_in AS o
    WHERE o.opened_at IS NOT NULL
        AND (:rule IS NULL OR o.rule = :rule)
    ORDER BY o.id
    LIMIT :limit
) AS f
JOIN windlass_rule AS r ON r.name = f.rule
JOIN windlass_rule_hit AS h ON h.fan_in = f.id AND h.round = f.round
WHERE h.counts
ORDER BY f.id, h.at, h.kind;

-- name: prune.fan_ins
-- Removes idle fan-ins that have no hits left, and those that were cancelled when the parent that failed them can no longer be retried.
DELETE FROM windlass_fan_in
WHERE NOT EXISTS (SELECT 1 FROM windlass_rule_hit AS h WHERE h.fan_in = windlass_fan_in.id)
    OR (
        bad > 0
        AND NOT EXISTS (SELECT 1 FROM windlass_rule AS r WHERE r.name = windlass_fan_in.rule AND r.policy = 'wait')
        AND NOT EXISTS (
            SELECT 1
            FROM windlass_rule_hit AS h
            WHERE h.fan_in = windlass_fan_in.id
                AND h.round = windlass_fan_in.round
                AND h.counts
                AND h.state <> 'completed'
                AND (
                    EXISTS (SELECT 1 FROM windlass_job_done AS d WHERE d.id = h.parent)
                    OR EXISTS (SELECT 1 FROM windlass_job AS j WHERE j.id = h.parent)
                    OR EXISTS (SELECT 1 FROM windlass_job_later AS l WHERE l.id = h.parent)
                )
        )
    );

-- column: agenda.new_kinds
-- Whether kinds have new rules, so that their jobs are to be scanned (as rule.kinds.new judges it).
EXISTS (
        SELECT 1 FROM windlass_rule_kind AS k
        WHERE k.looks = 0
            OR (k.looks = 1 AND k.since < :now - 15000000)
    )

-- fragment: rule_columns
-- What is read of a rule.
r.name, r.parents, r.kind, r.phase, r.key, r.args, r.policy, r.lane, r.max_attempts, r.inherit, r.source, r.event, r.defined_at,
    r.changed_at, r.gone_at
