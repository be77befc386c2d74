"""Plans made while every table was empty, and what they visit once the tables have grown.

A session of the store plans each statement once and keeps that plan until the statistics of a table change. Here every verb runs once,
the tables are emptied, every prepared statement is planned anew on the empty tables, the tables are filled, and every verb runs again
with the plan it has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from tests.plans.big import Explained, Plan
from windlass.store.database import Row
from windlass.store.postgres.transaction import PostgresTransaction
from windlass.store.schema.statements import PARAMETER, load

TABLES = (
    "api_token",
    "attempt",
    "checkpoint",
    "claim",
    "expiry",
    "fan_in",
    "gate",
    "job",
    "job_dep",
    "job_done",
    "job_key",
    "job_later",
    "job_limit",
    "output",
    "principal",
    "request_key",
    "rule_hit",
    "settling",
)

_ID = "('0190{kind}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
_CROWD = "generate_series(1, {rows}) AS n"

FILL = f"""
INSERT INTO windlass.job (id, created_at, ready_at, token, claimed_at, lane, attempt, max_attempts, kind, phase, args)
SELECT {_ID.format(kind="0001")}, now(), now() - interval '1 hour' + n * interval '1 millisecond',
    CASE WHEN n % 10 = 0 THEN 1000000 + n / 1000 END, CASE WHEN n % 10 = 0 THEN now() END, 4, (n % 10 = 0)::int, 3, 'crowd', 'crowd', '{{}}'
FROM {_CROWD};
INSERT INTO windlass.claim (token, instance, at, lanes, los, his, phase)
SELECT 1000000 + n, '00000000-0000-7000-8000-00000000c0de', now(), ARRAY[4], ARRAY[now() - interval '1 hour'], ARRAY[now()], 'crowd'
FROM generate_series(0, {{rows}} / 1000) AS n;
INSERT INTO windlass.instance (id, started_at, heartbeat_at, lease)
VALUES ('00000000-0000-7000-8000-00000000c0de', now(), now(), interval '1 hour');
INSERT INTO windlass.job_later (id, created_at, run_at, pending, lane, max_attempts, flags, reason, gate, kind, phase, args)
SELECT {_ID.format(kind="0002")}, now(), now() + interval '1 hour' + n * interval '1 second', (n % 4 = 0)::int, 4, 3,
    CASE WHEN n % 4 IN (1, 2) THEN 128 ELSE 0 END, (ARRAY['waiting', 'limited', 'paced', 'scheduled'])[n % 4 + 1],
    CASE WHEN n % 4 = 1 THEN 'k' || n % 1000 END, 'crowd', 'crowd', '{{{{}}}}'
FROM {_CROWD};
INSERT INTO windlass.job_limit (job, phase, key, lim, admitted)
SELECT {_ID.format(kind="0002")}, 'crowd', 'k' || n % 1000, 9, n % 3 = 0
FROM {_CROWD};
INSERT INTO windlass.gate (phase, key, used_at, admitted)
SELECT 'crowd', 'k' || n, now(), 9
FROM {_CROWD};
INSERT INTO windlass.job_dep (parent, child, policy, parent_state, parent_ended_at)
SELECT {_ID.format(kind="0001")}, {_ID.format(kind="0002")}, 'cancel', NULL, NULL
FROM {_CROWD};
INSERT INTO windlass.settling (parent, after, state)
SELECT {_ID.format(kind="0004")}, {_ID.format(kind="0004")}, 'completed'
FROM {_CROWD};
INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, max_attempts,
    flags, state, kind, phase, args, error)
SELECT {_ID.format(kind="0003")}, now(), now(), now(), 1, 4, 1, 1, 0, 3, 0,
    (ARRAY['completed', 'failed', 'cancelled'])[n % 3 + 1], 'crowd', 'crowd', '{{}}', CASE WHEN n % 3 > 0 THEN '{{}}'::jsonb END
FROM {_CROWD};
INSERT INTO windlass.output (job, generation, phase, name, at, value)
SELECT {_ID.format(kind="0001")}, 1, 'crowd', '', now(), '1'
FROM {_CROWD};
INSERT INTO windlass.checkpoint (job, generation, token, done, at)
SELECT {_ID.format(kind="0001")}, 1, 1, 1, now()
FROM {_CROWD};
INSERT INTO windlass.attempt (job, token, started_at, ended_at, generation, attempt, outcome, phase)
SELECT {_ID.format(kind="0003")}, 1, now(), now(), 1, 1, 'retried', 'crowd'
FROM {_CROWD};
INSERT INTO windlass.job_key (scope, key, job, body_hash)
SELECT 'live', 'crowd:' || n, {_ID.format(kind="0001")}, 'x'
FROM {_CROWD};
INSERT INTO windlass.expiry (job, expires_at)
SELECT {_ID.format(kind="0002")}, now() + interval '1 hour' + n * interval '1 second'
FROM {_CROWD};
INSERT INTO windlass.principal (job, alive_at, claims)
SELECT {_ID.format(kind="0001")}, now(), '{{}}'
FROM {_CROWD};
INSERT INTO windlass.rule_hit (parent, child, at, fan_in, round, generation, counts, asked, rule, kind, state)
SELECT {_ID.format(kind="0003")}, NULL, now(), 1000000 + n / 2, 1, 1, TRUE, FALSE, 'crowd', 'kind' || n % 2, 'completed'
FROM {_CROWD};
INSERT INTO windlass.fan_in (id, opened_at, missing, rule, key)
OVERRIDING SYSTEM VALUE
SELECT 1000000 + n, now(), 1, 'crowd', 'key' || n
FROM {_CROWD};
INSERT INTO windlass.request_key (scope, key, created_at, body_hash)
SELECT 'crowd', 'key' || n, now(), 'x'
FROM {_CROWD};
INSERT INTO windlass.api_token (id, created_at, name, hash, created_by, roles)
SELECT {_ID.format(kind="0005")}, now(), 'crowd' || n, repeat('0', 64), 'crowd', '[]'
FROM {_CROWD}
""".replace("'{}'", "'{{}}'").replace("'{{{{}}}}'", "'{{}}'")


@dataclass(frozen=True)
class Visit:
    """What one statement visited."""

    verb: str
    plan: Plan

    @property
    def rows(self) -> int:
        """Rows that any node of the plan produced or threw away: scans of tables, and scans of what the statement made itself."""
        return int(sum(map(_seen, self.plan.nodes())))

    def __str__(self) -> str:
        ways = [
            f"{node['Node Type']} {node.get('Index Name') or node.get('Relation Name') or node.get('CTE Name') or ''}"
            f" ({_seen(node):.0f})"
            for node in self.plan.nodes()
            if _seen(node) > self.rows / 10
        ]
        return f"{self.verb}: {self.rows} rows, {self.plan.buffers} pages, by {', '.join(ways)}"


def _seen(node: dict[str, Any]) -> float:
    """The rows that a node of a plan produced, and those it threw away."""
    thrown = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
    return float(node["Actual Loops"] * (node["Actual Rows"] + sum(node.get(why, 0) for why in thrown)))


class Stale(Explained):
    """The store's database with one connection that explains every statement before it runs it, once ``is_watching``."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_watching = False
        self.visits: list[Visit] = []
        self.ran: set[str] = set()
        with self._connection() as connection:
            connection.prepared_max = None  # the driver would let go of the oldest

    def _on(self, connection: psycopg.Connection) -> PostgresTransaction:
        return _Watched(connection, self)

    def plan_all(self) -> None:
        """Plan whatever the session has prepared, now."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements WHERE statement LIKE '%windlass.%'",
                prepare=False,
            ).fetchall()
            for name, n in rows:
                nothing = f"({', '.join(['NULL'] * n)})" if n else ""
                connection.execute(f'EXPLAIN EXECUTE "{name}"{nothing}'.encode(), prepare=False)


class _Watched(PostgresTransaction):
    def __init__(self, connection: psycopg.Connection, db: Stale) -> None:
        super().__init__(connection, db._clock, prepare=True)
        self._db = db

    def _run(self, verb: str, parameters: dict[str, object]) -> list[Row]:
        self._db.ran.add(verb)
        self._left = list(load("postgres")[verb].statements)
        self._verb, self._parameters = verb, parameters
        return super()._run(verb, parameters)

    def _cursor(self) -> psycopg.Cursor[Row]:
        """Asked for before each statement of a verb."""
        statement = self._left.pop(0)
        if self._db.is_watching:
            self._explain(self._verb, statement.text, self._parameters)
        return super()._cursor()

    def _explain(self, verb: str, text: str, parameters: dict[str, object]) -> None:
        numbers: dict[str, str] = {}
        wanted = PARAMETER.sub(lambda match: numbers.setdefault(match[1], f"${len(numbers) + 1}"), text)
        pgconn = self.connection.pgconn
        is_inside = pgconn.transaction_status == TransactionStatus.INTRANS
        pgconn.exec_(b"SAVEPOINT watched" if is_inside else b"BEGIN")
        try:
            found = self.connection.execute(
                "SELECT name FROM pg_prepared_statements WHERE statement = %s ORDER BY prepare_time LIMIT 1",
                (wanted,),
                prepare=False,
            ).fetchone()
            assert found is not None, f"{verb} was not planned while the tables were empty"
            cursor = psycopg.ClientCursor(self.connection)
            values = [parameters.get(name) for name in numbers]
            arguments = f"({', '.join(['%s'] * len(values))})" if values else ""
            answer = cursor.execute(
                f'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "{found[0]}"{arguments}'.encode(),
                values,
                prepare=False,
            ).fetchone()
            assert answer is not None
            (plan,) = json.loads(answer[0])
            self._db.visits.append(Visit(verb, Plan(plan["Plan"], plan["Execution Time"])))
        finally:
            pgconn.exec_(b"ROLLBACK TO SAVEPOINT watched" if is_inside else b"ROLLBACK")
