-- Boards: the facts that instances publish about themselves. A board counts while its instance lives.

-- name: board.put
-- Stores the board of a living instance; replaces its earlier board.
INSERT INTO windlass.board (instance, at, processors)
SELECT :instance::uuid, {{now}}, :facts::jsonb
WHERE {{is_alive(:instance::uuid)}}
ON CONFLICT (instance) DO UPDATE
SET at = excluded.at,
    processors = excluded.processors;

-- name: board.read
-- All boards.
SELECT b.instance, b.at, b.processors
FROM windlass.board AS b
ORDER BY b.instance;

-- name: board.drop
-- Removes the board of an instance that leaves.
DELETE FROM windlass.board AS b
WHERE b.instance = :instance::uuid;

-- name: board.sweep
-- Removes the boards of instances that are dead or not known any more.
DELETE FROM windlass.board AS b
WHERE NOT {{is_alive(b.instance)}};

-- name: board.watch
-- Notes that people watch for so many seconds; a longer watch of others stays.
INSERT INTO windlass.watch AS w (id, until)
SELECT 1, {{now}} + {{seconds(:seconds::double precision)}}
WHERE TRUE -- belt: SQLite would read ON as that of a join
ON CONFLICT (id) DO UPDATE
SET until = excluded.until
WHERE w.until < excluded.until;

-- column: agenda.watched_for
-- For how many seconds from now people watch.
{{in_seconds((SELECT max(w.until) FROM windlass.watch AS w) - {{now_once}})}}
