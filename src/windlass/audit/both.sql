-- The audit trail. Rows are added with the act that they describe, in its transaction, and never changed.

-- name: audit.write
-- Adds one record.
INSERT INTO windlass.audit (id, at, actor, subject, issuer, tenant, act, target, name, reason, before, after)
SELECT :id::uuid, {{now}}, :actor, :subject, :issuer, :tenant, :act, :target, :name, :reason, :before::jsonb, :after::jsonb;

-- name: audit.write_all
-- Adds many records.
INSERT INTO windlass.audit (id, at, actor, subject, issuer, tenant, act, target, name, reason, before, after)
SELECT g.id, c.at, g.actor, g.subject, g.issuer, g.tenant, g.act, g.target, g.name, g.reason, g.before, g.after
FROM {{given(:records, g,
    id uuid, actor text, subject text, issuer text, tenant text, act text, target text, name text, reason text, before jsonb, after jsonb
)}}
CROSS JOIN (SELECT {{now}} AS at) AS c;

-- name: audit.list
-- Records before a cursor that the person who asks may see, newest first: of jobs alone, or of all.
SELECT {{audit_columns(a)}}
FROM windlass.audit AS a
WHERE a.id < :cursor::uuid
    AND a.id >= :from::uuid -- belt: implied by the time that is asked for; the index is read to there
    AND (:target::text IS NULL OR a.target = :target)
    AND {{is_audited(a)}}
ORDER BY a.id DESC
LIMIT :limit;

-- name: audit.of
-- The same for one job, phase or schedule, by the index of targets.
SELECT {{audit_columns(a)}}
FROM windlass.audit AS a
WHERE a.target = :target::text
    AND a.name = :name::text
    AND a.id < :cursor::uuid
    AND a.id >= :from::uuid -- belt: implied by the time that is asked for; the index is read to there
    AND {{is_audited(a)}}
ORDER BY a.id DESC
LIMIT :limit;

-- name: audit.of_others
-- The same for all phases, schedules, operations or instances.
SELECT {{audit_columns(a)}}
FROM windlass.audit AS a
WHERE {{in_span(a.target, a.id, :target::text, :from::uuid, :cursor::uuid)}}
    AND a.target <> 'job' -- belt: implied; the planner needs it to prove the partial index
    AND {{is_audited(a)}}
ORDER BY {{newest_of(a.target, a.id)}}
LIMIT :limit;

-- name: audit.of_actor
-- The same for the acts of one actor.
SELECT {{audit_columns(a)}}
FROM windlass.audit AS a
WHERE {{in_span(a.actor, a.id, :by::text, :from::uuid, :cursor::uuid)}}
    AND (:target::text IS NULL OR a.target = :target)
    AND {{is_audited(a)}}
ORDER BY {{newest_of(a.actor, a.id)}}
LIMIT :limit;

-- name: audit.of_tenant
-- The same for the acts of one tenant's people.
SELECT {{audit_columns(a)}}
FROM windlass.audit AS a
WHERE {{in_span(a.tenant, a.id, :of::text, :from::uuid, :cursor::uuid)}}
    AND a.tenant IS NOT NULL -- belt: implied; the planner needs it to prove the partial index
    AND (:target::text IS NULL OR a.target = :target)
    AND {{is_audited(a)}}
ORDER BY {{newest_of(a.tenant, a.id)}}
LIMIT :limit;

-- fragment: audit_columns(record)
-- All columns of a record.
{record}.id, {record}.at, {record}.actor, {record}.subject, {record}.issuer, {record}.tenant, {record}.act, {record}.target, {record}.name,
    {record}.reason, {record}.before::text AS before, {record}.after::text AS after

-- fragment: is_audited(record)
-- Whether a record is of the actor and time that are asked for, and one that the person who asks may see.
(:actor::text IS NULL OR {record}.actor = :actor)
AND {{is_of_actor({record})}}
AND (:since::timestamptz IS NULL OR {record}.at >= :since)
