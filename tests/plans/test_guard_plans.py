"""Conditions that change no answer and are there for the planner: what each of them buys, seen in the plan.

The tables are empty and sequential scans are forbidden, so these plans say what an index *can* serve; that it is chosen at
a million rows is shown by test_hot_plans.py.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from windlass.clock import ManualClock
from windlass.features import open_store
from windlass.model import NewJob
from windlass.store.ids import LARGEST, SMALLEST, new_id
from windlass.store.postgres import transaction as pg_store
from windlass.store.sqlite import database as sqlite_store

pytestmark = pytest.mark.timing


def explain(dsn: str, verb: str, **parameters: Any) -> str:
    """The plan of a verb's first statement, its parameters put in as literals."""
    with psycopg.connect(dsn, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        text, names = pg_store.STATEMENTS[verb][0]
        values = {name: parameters.get(name) for name in names}
        return "\n".join(row[0] for row in connection.execute(b"EXPLAIN (COSTS OFF) " + text, values))


@pytest.mark.parametrize(
    ("verb", "parameters"),
    [
        ("cancels", {"instance": new_id()}),
        ("unclaim", {"instance": new_id(), "tokens": [1]}),
        ("recover.pick", {"tokens": None, "limit": 5}),
        ("recover.sweep", {}),
    ],
)
def test_a_claim_row_leads_to_its_jobs_through_the_index(
    postgres_dsn: str, verb: str, parameters: dict[str, Any]
) -> None:
    """The token alone would decide, and no index has it: phase, lane and ready_at are what the index can look up."""
    plan = explain(postgres_dsn, verb, **parameters)
    (condition,) = (line for line in plan.splitlines() if "Index Cond" in line and "ready_at" in line)
    condition = re.sub(r"\bc_\d\.", "c.", condition)
    for part in ("phase = c.phase", "lane = r.lane", "ready_at >= r.lo", "ready_at <= r.hi"):
        assert part in condition, plan


def test_a_look_uses_all_of_the_index_that_claims_use(postgres_dsn: str) -> None:
    plan = explain(postgres_dsn, "ready.phases", phases=["a"], lanes=[1], marks=["-infinity"])
    (condition,) = (line for line in plan.splitlines() if "Index Cond" in line and "ready_at" in line)
    for part in ("phase = l.phase", "lane = l.lane", "ready_at >= l.mark"):
        assert part in condition, plan
    assert "job_ready" in plan and "LockRows" not in plan


def test_the_oldest_job_is_found_at_the_head_of_each_lane(postgres_dsn: str) -> None:
    plan = explain(postgres_dsn, "oldest")
    (condition,) = (line for line in plan.splitlines() if "Index Cond" in line and "lane" in line)
    assert "phase = t.phase" in condition.replace("s.phase", "t.phase") and "lane = l.lane" in condition, plan
    assert "job_ready" in plan and "Sort Key: j.ready_at" not in plan, plan


LISTING = {"before": LARGEST, "limit": 5, "kind": None, "phase": None, "correlation": None, "state": "failed"}


def test_a_list_of_failures_has_an_index_of_its_own(postgres_dsn: str) -> None:
    """A partial one, which is used only where its own condition stands in the query."""
    assert "_state_id_idx" in explain(postgres_dsn, "list.ended_badly", **LISTING)


@pytest.mark.parametrize(
    ("verb", "way"),
    [
        ("list.ended_badly", "USING INDEX windlass_job_done_ended_badly"),
        ("record.plain_gone", "SEARCH d USING INTEGER PRIMARY KEY (rowid>?)"),
        ("record.plain_finished", "SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("gates", "INDEX windlass_job_later_limited (phase=? AND gate=?)"),
        ("gates.room", "INDEX windlass_job_later_limited (phase=? AND gate=?)"),
        ("admit", "INDEX windlass_job_later_limited (phase=? AND gate=?)"),
        ("age.later", "INDEX windlass_job_later_limited (phase=? AND gate>?)"),
        ("gates.sweep", "INDEX windlass_job_later_limited (phase=? AND gate=?)"),
    ],
)
def test_on_sqlite_a_condition_lets_an_index_serve(tmp_path: Path, verb: str, way: str) -> None:
    """That of a partial index has to stand in the statement, and rows that were just inserted are found by their places."""
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store, store.db.effect(5) as tx:
        plan = [
            row[-1]
            for statement in sqlite_store.STATEMENTS[verb].statements
            for row in tx.connection.execute(
                f"EXPLAIN QUERY PLAN {statement.text}", dict.fromkeys(statement.names)
            )
        ]
        assert way in "\n".join(plan)


@pytest.mark.parametrize("verb", ["gates", "gates.room", "gates.sweep", "admit"])
def test_jobs_at_a_gate_are_found_through_the_index_of_gates(postgres_dsn: str, verb: str) -> None:
    """A partial one."""
    plan = explain(postgres_dsn, verb, gates="[]", ended=[], moved=[], limit=5)
    assert "job_later_limited" in plan, plan


@pytest.mark.parametrize("verb", ["prune.page", "prune.delete", "parents.read"])
def test_only_days_are_looked_at_that_can_hold_something(postgres_dsn: str, verb: str) -> None:
    clock = ManualClock()
    with open_store(postgres_dsn, clock=clock) as store:
        store.upkeep.maintain()
    yesterday = clock.now() - timedelta(days=1)
    before = {f"{name}_before": clock.now() for name in ("completed", "failed", "cancelled")}
    values = {
        "after": SMALLEST,
        "limit": 5,
        "ids": [new_id()],
        "oldest": yesterday,
        "newest": yesterday,
        "bytes": 1,
        **before,
    }
    plan = explain(postgres_dsn, verb, **values)
    days = {word for word in plan.replace("_1 ", " ").split() if word.startswith("job_done_2")}
    assert {day[:17] for day in days} == {f"job_done_{yesterday:%Y%m%d}"}, plan


@pytest.mark.parametrize("join", ["nestloop", "hashjoin", "mergejoin"])
def test_promotion_gives_places_by_due_time_whatever_the_join(postgres_dsn: str, join: str) -> None:
    """A merge join meets the rows in the order of their ids, which is not the order they became due in."""
    clock = ManualClock()
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        for other in {"nestloop", "hashjoin", "mergejoin"} - {join}:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET enable_{other} = off')
    with open_store(postgres_dsn, clock=clock) as store:
        jobs = [NewJob(kind="work", delay=timedelta(seconds=9 - n)) for n in range(5)]
        ids = [answer.id for answer in store.enqueue(jobs)]
        clock.advance(20)
        store.upkeep.promote()
        places = {job.run_at: job.id for job in store.jobs.list(limit=9).jobs}
        assert [places[at] for at in sorted(at for at in places if at)] == ids[::-1]
