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
