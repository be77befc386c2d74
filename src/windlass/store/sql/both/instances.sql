-- Instances: the verbs with one text for both databases.

-- name: join
-- Makes a new instance known; its lease starts now.
INSERT INTO windlass.instance (id, started_at, heartbeat_at, lease, info)
SELECT :instance::uuid, c.at, c.at, {{seconds(:lease::double precision)}}, :info::jsonb
FROM (SELECT {{now}} AS at) AS c;

-- name: instances
-- The instances known to the database, newest first.
SELECT i.id, i.started_at, i.heartbeat_at, i.dead_at, {{in_seconds(i.lease)}} AS lease_seconds, i.info
FROM windlass.instance AS i
ORDER BY i.started_at DESC, i.id;

-- name: instance.dead
-- Whether one instance was declared dead; no row if it is unknown.
SELECT i.dead_at IS NOT NULL AS is_dead
FROM windlass.instance AS i
WHERE i.id = :instance::uuid;

-- name: recover.due
-- Whether there is anything to recover: a read, so that a round of recovery with nothing to do costs one statement, and an idle instance
-- never writes.
SELECT 1
WHERE {{is_recovery_due({{now_once}})}};

-- fragment: is_late(instance, at)
-- Whether an instance's heartbeat is older than its own lease. Never the calling one (:own): it is alive, and after a pause or a step of the
-- clock its recovery may run before its next beat.
{instance}.dead_at IS NULL
AND {instance}.heartbeat_at + {instance}.lease < {at}
AND {instance}.id {{is_not}} :own::uuid

-- fragment: is_recovery_due(at)
-- Whether an instance is late, or a dead one still has claims or is to be forgotten, or a claim has no instance.
EXISTS (
    SELECT 1 FROM windlass.instance AS i
    WHERE ({{is_late(i, {at})}})
        OR (i.dead_at IS NOT NULL AND EXISTS (SELECT 1 FROM windlass.claim AS c WHERE c.instance = i.id))
        OR i.dead_at < {at} - {{seconds(3600)}}
)
OR EXISTS (
    SELECT 1 FROM windlass.claim AS c
    WHERE NOT EXISTS (SELECT 1 FROM windlass.instance AS i WHERE i.id = c.instance)
)

-- fragment: deaths(job)
-- How many deaths of its instance a job was charged with before, in its phase.
CASE WHEN {job}.flags & {RECOVERED} <> 0 THEN (
    SELECT count(*)
    FROM windlass.attempt AS a
    WHERE a.job = {job}.id
        AND a.generation = {job}.generation
        AND a.phase = {job}.phase
        AND a.error ->> 'code' = 'instance_died'
) ELSE 0 END

-- fragment: is_alive(instance)
-- Whether this instance is known and was not declared dead.
EXISTS (SELECT 1 FROM windlass.instance AS i WHERE i.id = {instance} AND i.dead_at IS NULL)

-- name: claims.count
-- How many claims each instance has.
SELECT c.instance, count(*) AS claims
FROM windlass.claim AS c
GROUP BY c.instance
ORDER BY c.instance;
