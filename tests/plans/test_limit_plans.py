"""Letting limited jobs in touches a bounded number of rows, however many wait, and whatever plan the session has made (PostgreSQL)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from tests.plans.big import Explained
from tests.servers.postgres import PostgresServers
from windlass.features import Store
from windlass.model import Completed, JobLimit, NewJob, Rate
from windlass.store.ids import SMALLEST
from windlass.store.jobs.record import apply

pytestmark = pytest.mark.timing

WAITING = 60_000
GATES = 5_000

FILL = f"""
INSERT INTO windlass.flow (phase, told_at, filled_at, tokens, rate, lim, burst)
VALUES ('work', now(), now(), 0, NULL, 3, NULL), ('slow', now(), now(), 5, 1, NULL, 5);
INSERT INTO windlass.gate (phase, key, used_at, admitted)
SELECT 'work', 'k' || n, now(), 0 FROM generate_series(1, {GATES}) AS n;
INSERT INTO windlass.job_later (id, created_at, run_at, lane, max_attempts, flags, reason, gate, kind, phase, args)
SELECT ('0190aaaa-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now() + n * interval '1 millisecond', n % 10, 3, 128,
    'limited', 'full', 'work', 'work', '{{}}'
FROM generate_series(1, {WAITING}) AS n;
INSERT INTO windlass.job_limit (job, phase, key, lim)
SELECT l.id, 'work', 'full', 3 FROM windlass.job_later AS l;
INSERT INTO windlass.job_later (id, created_at, run_at, lane, max_attempts, flags, reason, kind, phase, args)
SELECT ('0190bbbb-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now() + n * interval '1 millisecond', n % 10, 3, 128,
    'paced', 'slow', 'slow', '{{}}'
FROM generate_series(1, {WAITING}) AS n;
INSERT INTO windlass.job_limit (job, phase, key, rate, burst)
SELECT l.id, 'slow', '', 1, 5 FROM windlass.job_later AS l WHERE l.phase = 'slow';
ANALYZE windlass.job_later; ANALYZE windlass.job_limit; ANALYZE windlass.gate; ANALYZE windlass.flow
"""


@pytest.fixture(scope="module")
def db(pg_servers: PostgresServers) -> Iterator[Explained]:
    databases = pg_servers.get()
    dsn = databases.fresh()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(FILL.encode())
    made = Explained(dsn)
    yield made
    made.close()
    databases.drop(dsn)


@pytest.fixture(scope="module")
def busy(db: Explained) -> list[str]:
    """Three jobs that are let in at the gate where the crowd waits; every verb below has run before, so it has its generic plan."""
    store = Store(db)
    store.enqueue([NewJob(kind="work", limits=[JobLimit(phase="work", key="full", limit=3)], priority=9)] * 6)
    store.enqueue([NewJob(kind="slow", limits=[JobLimit(phase="slow", rate=Rate(1, 5))])])
    store.limits.let_in()
    holder = store.join()
    holder.complete(holder.claim("work", 1)[0])
    ended = Completed(holder.claim("work", 1)[0])
    db.transact(lambda tx: apply(db, store.enqueuer, tx, [ended], is_foreign=True))
    store.limits.let_in()
    store.limits.mend()
    store.upkeep.agenda()
    with psycopg.connect(db._url, autocommit=True) as connection:
        rows = connection.execute("SELECT job::text FROM windlass.job_limit WHERE admitted").fetchall()
    assert len(rows) == 3
    return [row[0] for row in rows]


ONE = json.dumps([{"job": "0190aaaa-0000-7000-8000-000000000001", "phase": "work"}])
FULL = json.dumps([{"phase": "work", "key": "full"}])


@pytest.mark.parametrize(
    ("verb", "parameters", "later", "limits", "gates"),
    [
        ("free.lock", {}, 0, 10, 5),
        ("admit", {"gates": FULL, "moved": [], "limit": 500}, 20, 20, 10),
        ("gate.try", {"gates": FULL}, 0, 0, 5),
        ("gate.pick", {"after": SMALLEST, "limit": 500}, 20, 20, 0),
        ("pace.pick", {"phase": "slow", "limit": 5}, 20, 0, 0),
        ("pace.phases", {}, 10, 0, 0),
        ("free.gone", {"job": SMALLEST, "phase": "", "limit": 500}, 0, 5, 0),
        ("free.places", {"places": ONE}, 5, 10, 5),
        ("agenda", {"own": None}, 10, 5, 0),
        ("gates.check", {"limit": 500}, 10, 20, GATES + 10),
        ("gates.room", {"limit": 500}, GATES + 10, 0, GATES + 10),
    ],
)
def test_letting_in_touches_a_bounded_number_of_rows_beside_crowds(
    db: Explained,
    busy: list[str],
    verb: str,
    parameters: dict[str, object],
    later: int,
    limits: int,
    gates: int,
) -> None:
    given = {**parameters, "ids": busy[:1], "ended": busy[:1]}
    (plan,) = db.explain(verb, **given)
    assert plan.touched("job_later") <= later, plan.ways("job_later")
    assert plan.touched("job_limit") <= limits, plan.ways("job_limit")
    assert plan.touched("gate") <= gates, plan.ways("gate")
