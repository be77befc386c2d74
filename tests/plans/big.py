"""A big database in a few seconds, and the store's own plans on it.

``rows`` queued and a tenth as many processing jobs of one phase (the processing ones at its head, as a drained queue has them), as many
scheduled, as many ended in five daily partitions. Rows go straight into the tables; nothing here tests how they got there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

from windlass.store.postgres import partitions
from windlass.store.postgres.database import PostgresDatabase
from windlass.store.schema.statements import load

PHASE = "big"
DAYS = 5
PER_CLAIM = 100
DEAD = "00000000-0000-7000-8000-00000000dead"

_ID = "('0190{kind}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
# One millisecond apart, oldest first; everything is an hour to a quarter of an hour old.
_READY = "date_trunc('second', clock_timestamp()) - interval '1 hour' + n * interval '1 millisecond'"


def _live(rows: int, processing: int) -> str:
    return f"""
INSERT INTO windlass.job (id, created_at, ready_at, token, claimed_at, lane, attempt, max_attempts, kind, phase, args)
SELECT {_ID.format(kind="0001")}, clock_timestamp(), {_READY},
    CASE WHEN n <= {processing} THEN 1 + (n - 1) / {PER_CLAIM} END,
    CASE WHEN n <= {processing} THEN clock_timestamp() END,
    CASE WHEN n % 20 = 0 AND n > {processing} THEN 5 ELSE 4 END,
    (n <= {processing})::int, 3, 'kind', '{PHASE}', '{{"n": 1}}'
FROM generate_series(1, {processing + rows}) AS n
"""


def _claims(processing: int) -> str:
    return f"""
INSERT INTO windlass.claim (token, instance, at, lanes, los, his, phase)
SELECT j.token, '{DEAD}', min(j.claimed_at), ARRAY[4], ARRAY[min(j.ready_at)], ARRAY[max(j.ready_at)], '{PHASE}'
FROM windlass.job AS j
WHERE j.token IS NOT NULL
GROUP BY j.token;
INSERT INTO windlass.instance (id, started_at, heartbeat_at, lease)
VALUES ('{DEAD}', clock_timestamp(), clock_timestamp(), interval '1 hour');
SELECT setval('windlass.token', {processing});
"""


def _scheduled(rows: int) -> str:
    return f"""
INSERT INTO windlass.job_later (id, created_at, run_at, lane, max_attempts, reason, kind, phase, args)
SELECT {_ID.format(kind="0002")}, clock_timestamp(), clock_timestamp() + n * interval '1 second', 4, 3, 'scheduled', 'kind',
    '{PHASE}', '{{"n": 1}}'
FROM generate_series(1, {rows}) AS n
"""


def _ended(rows: int) -> str:
    return f"""
INSERT INTO windlass.job_done (id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes,
    max_attempts, flags, state, kind, phase, args, error)
SELECT {_ID.format(kind="0003")}, t.at, t.at, t.at, 1, 4, 1, 1, 0, 3, 0,
    CASE WHEN n % 200 = 0 THEN 'failed' ELSE 'completed' END, 'kind', '{PHASE}', '{{"n": 1}}',
    CASE WHEN n % 200 = 0 THEN '{{}}'::jsonb END
FROM generate_series(1, {rows}) AS n
CROSS JOIN LATERAL (SELECT clock_timestamp() - (n % {DAYS}) * interval '1 day' AS at) AS t
"""


def processing_of(rows: int) -> int:
    """How many jobs are processing beside ``rows`` queued jobs."""
    return rows // 10


def fill(dsn: str, rows: int) -> None:
    """Fill a migrated database; a million rows take about ten seconds with two cores and fsync off."""
    processing = processing_of(rows)
    live = f"{_live(rows, processing)};{_claims(processing)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        today = connection.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
        assert today is not None
        partitions.ensure(connection, around=today[0] - timedelta(days=DAYS - 1))

    def one(statements: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = off")
            connection.execute("SET maintenance_work_mem = '256MB'")
            connection.execute(statements.encode())

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(one, text) for text in (live, _scheduled(rows), _ended(rows))]:
            done.result()
    one("ANALYZE windlass.job; ANALYZE windlass.job_later; ANALYZE windlass.job_done; ANALYZE windlass.claim")


@dataclass(frozen=True)
class Plan:
    """An executed plan, as EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) tells it."""

    root: dict[str, Any]
    milliseconds: float

    def nodes(self) -> Iterator[dict[str, Any]]:
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            stack += node.get("Plans", [])

    @property
    def buffers(self) -> int:
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    def scans(self, table: str) -> list[dict[str, Any]]:
        """The nodes that read a table (or one of its partitions) and were executed."""
        return [
            node
            for node in self.nodes()
            if re.fullmatch(rf"{table}(_\d{{8}})?", node.get("Relation Name", ""))
            and "Scan" in node["Node Type"]
            and node["Actual Loops"]
        ]

    def touched(self, table: str) -> int:
        """How many rows of a table were looked at: returned, or fetched and thrown away."""
        thrown = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        rows = sum(
            node["Actual Loops"] * (node["Actual Rows"] + sum(node.get(why, 0) for why in thrown))
            for node in self.scans(table)
        )
        return int(rows + 0.5)

    def ways(self, table: str) -> set[str]:
        """How a table is read: the index's name (without a partition's date), or the kind of scan."""
        return {
            re.sub(r"_\d{8}", "", node.get("Index Name", "")) or node["Node Type"]
            for node in self.scans(table)
        }


class Explained(PostgresDatabase):
    """The store's database with one connection, able to explain the statements that connection has prepared."""

    def __init__(self, url: str) -> None:
        super().__init__(url, max_connections=1)
        self._connections.beats.close()
        self._connections.beats = self._connections.verbs  # heartbeats, too, on the one connection

    @contextmanager
    def kept_back(self) -> Iterator[psycopg.Connection]:
        """The one connection, in a transaction that is rolled back without the driver's knowledge: it would forget
        what it has prepared."""
        with self._connection() as connection:
            connection.pgconn.exec_(b"BEGIN")
            try:
                yield connection
            finally:
                connection.pgconn.exec_(b"ROLLBACK")

    def explain(self, verb: str, **parameters: object) -> Sequence[Plan]:
        """Run a verb's statements in a transaction that is rolled back; the plans they ran with.

        The statements are those the session has prepared by running the verb before, with the plan it would use: EXPLAIN
        EXECUTE, not EXPLAIN of the text, which would plan for these very parameters.
        """
        plans = []
        with self.kept_back() as connection:
            for statement in load("postgres")[verb].statements:
                names = list(dict.fromkeys(re.findall(r"(?<![:\w]):([a-z_]+)", statement.text)))
                values = [None if name == "now" else parameters[name] for name in names]
                prepared = self._prepared(connection, statement.text, verb)
                cursor = psycopg.ClientCursor(connection)
                arguments = f"({', '.join(['%s'] * len(values))})" if values else ""
                text = f'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "{prepared}"{arguments}'
                answer = cursor.execute(text.encode(), values).fetchone()
                assert answer is not None
                (plan,) = json.loads(answer[0])
                plans.append(Plan(plan["Plan"], plan["Execution Time"]))
        return plans

    def _prepared(self, connection: psycopg.Connection, text: str, verb: str) -> str:
        numbers: dict[str, str] = {}
        wanted = re.sub(
            r"(?<![:\w]):([a-z_]+)", lambda match: numbers.setdefault(match[1], f"${len(numbers) + 1}"), text
        )
        rows = connection.execute(
            "SELECT name, custom_plans FROM pg_prepared_statements WHERE statement = %s ORDER BY prepare_time DESC",
            (wanted,),
        ).fetchall()
        assert rows, f"{verb} was not prepared by this session"
        assert all(custom == 0 for _, custom in rows), (
            f"{verb} was planned for single values, not generically"
        )
        return str(rows[0][0])
