-- Rules: the verbs with one text for both databases. The PostgreSQL file describes the protocol and the locks.

-- name: rule.mark_gone
-- Notes that the code of these rules is gone. They go on firing.
UPDATE windlass.rule AS r
SET gone_at = {{now}}
WHERE {{one_of(r.name, :names::text[])}};

-- name: rule.remove
-- Removes a rule.
DELETE FROM windlass.rule AS r
WHERE r.name = :name
RETURNING name;

-- name: rule.kinds
-- The kinds whose jobs some rule waits for.
SELECT k.kind
FROM windlass.rule_kind AS k;

-- name: rule.kinds.new
-- Kinds whose earlier jobs are to be scanned: at once, and again (for the last time) when every enqueue that did not know the
-- kind has committed.
SELECT k.kind, k.since, k.looks
FROM windlass.rule_kind AS k
WHERE k.looks = 0
    OR (k.looks = 1 AND k.since < {{now_once}} - {{seconds(15)}})
ORDER BY k.since, k.looks, k.kind;

-- name: rule.kinds.scanned
-- Notes that the jobs of kinds were scanned, unless the kinds have changed since.
UPDATE windlass.rule_kind AS k
SET looks = :looks
WHERE {{one_of(k.kind, :kinds::text[])}}
    AND k.since = :since::timestamptz;

-- name: rule.missed
-- A page of jobs of these kinds that ended since a time; with :unflagged those that ended without their rules being fired.
SELECT d.id
FROM windlass.job_done AS d
WHERE {{one_of(d.kind, :kinds::text[])}}
    AND d.finished_at >= :since::timestamptz
    AND d.id > :after::uuid
    AND (d.flags & {RULES} = 0 OR NOT :unflagged)
ORDER BY d.id
LIMIT :limit;

-- name: hit.put
-- Notes ends that rules have seen, each once; returns those that were not known.
INSERT INTO windlass.rule_hit (parent, child, at, fan_in, round, generation, counts, asked, rule, kind, state, error, data)
SELECT g.parent, g.child, {{now}}, g.fan_in, g.round, g.generation, g.counts, g.asked, g.rule,
    g.kind, g.state, g.error, g.data
FROM {{given(:hits, g,
    parent uuid, child uuid, fan_in bigint, round integer, generation smallint, counts boolean, asked boolean,
    rule text, kind text, state text, error text, data jsonb
)}}
ORDER BY g.parent, g.rule
ON CONFLICT (parent, rule, generation) DO NOTHING
RETURNING parent, rule;

-- name: fan_in.open
-- Locks the fan-ins of these keys, in order, making those that are not there; returns their counts.
INSERT INTO windlass.fan_in AS f (rule, key, missing)
SELECT g.rule, g.key, g.width
FROM {{given(:fan_ins, g, rule text, key text, width smallint)}}
ORDER BY g.rule, g.key
ON CONFLICT (rule, key) DO UPDATE
SET round = f.round
RETURNING id, rule, key, round, missing, bad;

-- name: fan_in.supersede
-- These hits no longer count: another one of their kind does.
UPDATE windlass.rule_hit AS h
SET counts = FALSE
FROM {{given(:hits, g, parent uuid, rule text, generation smallint)}}
WHERE {{found_by(h.parent, g.parent)}}
    AND h.rule = g.rule
    AND h.generation = g.generation;

-- name: fan_in.count
-- How many kinds locked fan-ins still miss, and how many of those ended badly.
UPDATE windlass.fan_in AS f
SET missing = g.missing,
    bad = g.bad,
    opened_at = COALESCE(f.opened_at, {{now}})
FROM {{given(:fan_ins, g, id bigint, missing smallint, bad smallint)}}
WHERE {{found_by(f.id, g.id)}};

-- name: hit.forget
-- Forgets ends that a rule has made no child of; returns the parents, to be scanned again.
DELETE FROM windlass.rule_hit AS h
WHERE h.rule = :rule
    AND h.child IS NULL
    AND (h.fan_in IS NULL OR h.error IS NOT NULL)
RETURNING parent;

-- name: hit.left
-- Ends whose child was not made: of rules with one parent those that wait for a retry, of all rules those that could not.
SELECT h.rule, h.fan_in, COALESCE(h.round, h.generation) AS round, f.key, h.parent, h.kind, h.state, h.at, h.error
FROM windlass.rule_hit AS h
LEFT JOIN windlass.fan_in AS f ON f.id = h.fan_in
WHERE h.child IS NULL
    AND (h.fan_in IS NULL OR h.error IS NOT NULL)
    AND (:rule::text IS NULL OR h.rule = :rule)
ORDER BY h.rule, h.fan_in, h.round, h.parent, h.generation
LIMIT :limit;

-- name: hit.childless
-- The ends of a job that rules have made no child of, and of a fan-in its key, its round and since when that is open. (A condition on the
-- time would lead PostgreSQL to the index of all open fan-ins.)
SELECT h.rule, h.kind, h.state, h.error, h.at, h.counts, h.round, f.id, f.round AS now_round, f.key, f.opened_at
FROM windlass.rule_hit AS h
LEFT JOIN windlass.fan_in AS f ON {{found_by(f.id, h.fan_in)}}
WHERE h.parent = :id::uuid
    AND h.child IS NULL
ORDER BY h.rule, h.generation;

-- name: fan_in.of_key
-- The fan-in of a rule and a key, and since when its round is open.
SELECT f.id, f.round, f.opened_at
FROM windlass.fan_in AS f
WHERE f.rule = :rule::text
    AND f.key = :key::text;

-- name: fan_in.arrived
-- The kinds that have ended in a round of a fan-in, and how.
SELECT h.kind, h.state, h.parent, h.at
FROM windlass.rule_hit AS h
WHERE h.fan_in = :fan_in::bigint
    AND h.round = :round::integer
    AND h.counts
ORDER BY h.at, h.kind;
-- name: hit.counted
-- The rules whose fan-ins count an earlier end of a job, under a key that was made of it.
SELECT DISTINCT h.rule
FROM windlass.rule_hit AS h
WHERE h.parent = :id::uuid
    AND h.fan_in IS NOT NULL
ORDER BY h.rule;

-- name: prune.hits
-- Removes hits of jobs that are gone, but those that a fan-in counts on.
DELETE FROM windlass.rule_hit AS h
WHERE NOT EXISTS (SELECT 1 FROM windlass.job_done AS d WHERE d.id = h.parent)
    AND NOT EXISTS (SELECT 1 FROM windlass.job AS j WHERE j.id = h.parent)
    AND NOT EXISTS (SELECT 1 FROM windlass.job_later AS l WHERE l.id = h.parent)
    AND NOT EXISTS (SELECT 1 FROM windlass.fan_in AS f WHERE f.id = h.fan_in AND f.round = h.round);

-- fragment: new_flags(kind)
-- A job is flagged whose kind is the parent of a rule.
| CASE WHEN {kind} IN (SELECT k.kind FROM windlass.rule_kind AS k) THEN {RULES} ELSE 0 END

-- fragment: further_edges
-- The jobs that a rule made a job of, and those that it made of a job.
UNION ALL
SELECT h.parent, h.child, NULL, h.state, h.rule
FROM windlass.rule_hit AS h
WHERE h.child = :id::uuid
UNION ALL
SELECT h.parent, h.child, NULL, h.state, h.rule
FROM windlass.rule_hit AS h
WHERE h.parent = :id::uuid
    AND h.child IS NOT NULL

-- fragment: further_parents
-- The jobs that a rule made these jobs of.
UNION ALL
SELECT h.parent, h.child
FROM windlass.rule_hit AS h
WHERE {{one_of(h.child, :ids::uuid[])}}

-- fragment: further_children
-- The jobs that rules made of these jobs.
UNION ALL
SELECT h.parent, h.child
FROM windlass.rule_hit AS h
WHERE {{one_of(h.parent, :ids::uuid[])}}
    AND h.child IS NOT NULL
