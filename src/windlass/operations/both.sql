-- Operations, and requests to instances.
--
-- A page of jobs is acted on in the transaction that moves `after`, under the lock of the operation's row, so that each job is acted on
-- once, whatever dies in between.

-- name: operation.put
-- Stores an operation that begins now.
INSERT INTO windlass.operation (id, created_at, updated_at, after, matched, is_exact, state, act, filter, actor, subject, issuer, tenant, reason,
    scope, options, refusals)
SELECT :id::uuid, c.at, c.at, :after::uuid, :matched::bigint, :is_exact::boolean, 'running', :act, :filter, :actor, :subject, :issuer, :tenant, :reason,
    :scope::jsonb, :options::jsonb, '[]'::jsonb
FROM (SELECT {{now}} AS at) AS c;

-- name: operation.get
-- One operation, if the actor may see it.
SELECT {{operation_columns(o)}}
FROM windlass.operation AS o
WHERE o.id = :id::uuid
    AND {{is_of_actor(o)}};

-- name: operation.list
-- Operations before a cursor that the actor may see, newest first.
SELECT {{operation_columns(o)}}
FROM windlass.operation AS o
WHERE o.id < :cursor::uuid
    AND (:state::text IS NULL OR o.state = :state)
    AND {{is_of_actor(o)}}
ORDER BY o.id DESC
LIMIT :limit;

-- name: operation.next
-- The running operation that waited longest for its next page, so that a small one does not wait for the end of a large one; without those
-- that the caller cannot do.
SELECT {{operation_columns(o)}}
FROM windlass.operation AS o
WHERE o.state = 'running'
    AND NOT {{one_of(o.id, :left::uuid[])}}
ORDER BY o.updated_at, o.id
LIMIT 1;

-- name: operation.lock
-- Locks an operation that runs and has come as far as the caller believes; no row if another session did its next page, or is doing it.
SELECT o.id
FROM windlass.operation AS o
WHERE o.id = :id::uuid
    AND o.state = 'running'
    AND o.after = :after::uuid
FOR UPDATE SKIP LOCKED;

-- name: operation.advance
-- Notes a page of a locked operation; the last page ends the operation.
UPDATE windlass.operation AS o
SET after = :after::uuid,
    done = o.done + :done::bigint,
    refused = o.refused + :refused::bigint,
    refusals = :refusals::jsonb,
    state = :state::text,
    updated_at = {{now}},
    finished_at = CASE WHEN :state::text = 'running' THEN NULL ELSE {{now}} END
WHERE o.id = :id::uuid
    AND o.state = 'running' -- belt: the row is locked
RETURNING done, refused;

-- name: operation.stop
-- Stops a running operation, after the page that is being done; returns what was done.
UPDATE windlass.operation AS o
SET state = 'stopped',
    updated_at = {{now}},
    finished_at = {{now}}
WHERE o.id = :id::uuid
    AND o.state = 'running'
RETURNING done, refused;

-- name: operation.live
-- Locks those of these jobs that are queued or processing, in order; returns their states.
SELECT j.id, CASE WHEN j.token IS NULL THEN 'queued' ELSE 'processing' END AS state
FROM windlass.job AS j
WHERE {{one_of(j.id, :ids::uuid[])}}
ORDER BY j.id
FOR UPDATE;

-- name: operation.later
-- The same for those that wait.
SELECT l.id, CASE WHEN l.reason IN ('scheduled', 'retry') THEN 'scheduled' WHEN l.reason = 'inbox' THEN 'queued' ELSE 'waiting' END AS state
FROM windlass.job_later AS l
WHERE {{one_of(l.id, :ids::uuid[])}}
ORDER BY l.id
FOR UPDATE;

-- name: operation.ended
-- The same for those that have ended.
SELECT d.id, d.state
FROM windlass.job_done AS d
WHERE {{one_of(d.id, :ids::uuid[])}}
ORDER BY d.id
FOR UPDATE;

-- name: request.put
-- Stores a request to an instance; those of a month ago go.
DELETE FROM windlass.instance_request AS r
WHERE r.at < {{now_once}} - {{seconds(2592000)}};
INSERT INTO windlass.instance_request (id, instance, at, number, state, act, phase, actor, reason)
SELECT :id::uuid, :instance::uuid, {{now}}, :number::double precision, 'asked', :act, :phase, :actor, :reason;

-- name: request.get
-- One request.
SELECT {{request_columns(r)}}
FROM windlass.instance_request AS r
WHERE r.id = :id::uuid;

-- name: request.list
-- The requests to an instance, newest first.
SELECT {{request_columns(r)}}
FROM windlass.instance_request AS r
WHERE r.instance = :instance::uuid
ORDER BY r.id DESC
LIMIT :limit;

-- name: request.asked
-- The requests that an instance has not read, oldest first.
SELECT {{request_columns(r)}}
FROM windlass.instance_request AS r
WHERE r.instance = :instance::uuid
    AND r.state = 'asked'
ORDER BY r.id;

-- name: request.note
-- Notes what became of a request.
UPDATE windlass.instance_request AS r
SET state = :state::text,
    outcome = :outcome,
    done_at = CASE WHEN :state::text IN ('done', 'refused') THEN {{now}} END
WHERE r.id = :id::uuid
    AND r.state IN ('asked', 'accepted');

-- column: agenda.requests
-- Whether there are requests that the instance that asks has not read.
EXISTS (SELECT 1 FROM windlass.instance_request AS r WHERE r.instance = :own::uuid AND r.state = 'asked')

-- fragment: request_columns(request)
-- All columns of a request.
{request}.id, {request}.instance, {request}.act, {request}.phase, {request}.number, {request}.actor, {request}.reason, {request}.state, {request}.outcome,
    {request}.at, {request}.done_at

-- column: agenda.operations
-- Whether operations have jobs left.
EXISTS (SELECT 1 FROM windlass.operation AS o WHERE o.state = 'running')

-- fragment: operation_columns(operation)
-- All columns of an operation.
{operation}.id, {operation}.created_at, {operation}.updated_at, {operation}.finished_at, {operation}.after, {operation}.matched, {operation}.is_exact,
    {operation}.done, {operation}.refused, {operation}.state, {operation}.act, {operation}.filter, {operation}.actor, {operation}.subject,
    {operation}.issuer, {operation}.tenant, {operation}.reason, {operation}.scope::text AS scope, {operation}.options::text AS options,
    {operation}.refusals::text AS refusals
