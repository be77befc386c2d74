"""Instances that meet at one tick: whoever locks it first has it, the others go on, and nothing of a dead one stays (I-27)."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import psycopg
import pytest

from tests.interleavings.sessions import Open, Waiting, until_blocked, user_transaction
from windlass.errors import ScheduleNotFoundError
from windlass.features import Store
from windlass.model import NewSchedule

pytestmark = pytest.mark.timing

NAMES = ("a", "b", "c")
BE_PATIENT = "SET LOCAL idle_in_transaction_session_timeout = 0"
"""The server would end a transaction that fires after five seconds without a statement, also where the test was held up for so long."""


def make_due(dsn: str, store: Store, *names: str) -> None:
    """Schedules whose next tick was due two seconds ago."""
    for name in names:
        store.schedules.put(NewSchedule(name=name, kind="work", expression="0 0 1 1 *"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE windlass.schedule SET next_at = date_trunc('second', clock_timestamp()) - interval '2 seconds'"
        )


def test_what_somebody_fires_others_leave_out_without_waiting(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    make_due(postgres_dsn, store, *NAMES)
    with user_transaction(postgres_dsn) as first:
        picked = first.run("fire.pick", limit=2, without=[])
        first.connection.execute(BE_PATIENT)
        assert [row[0] for row in picked] == ["a", "b"]
        assert [item.schedule for item in store.schedules.fire_due()] == ["c"]
        assert store.schedules.fire_due() == []
        first.connection.rollback()
    assert [item.schedule for item in store.schedules.fire_due()] == ["a", "b"]
    assert store.schedules.fire_due() == []


def test_a_process_that_dies_while_it_fires_leaves_a_tick_that_is_due(
    postgres_dsn: str, stores: Open
) -> None:
    store = stores(postgres_dsn)
    make_due(postgres_dsn, store, "a")

    class DiedError(Exception):
        pass

    def die(*_arguments: object, **_options: object) -> NoReturn:
        raise DiedError

    dying = stores(postgres_dsn)
    dying.enqueuer.insert = die  # type: ignore[method-assign]
    with pytest.raises(DiedError):
        dying.schedules.fire_due()
    assert store.schedules.ticks("a") == [] and store.schedules.get("a").last_job is None
    (fired,) = store.schedules.fire_due()
    assert len(fired.ticks) == 1 and store.jobs.get(fired.ticks[0].job_id).kind == "work"


def test_a_frozen_process_frees_its_schedules_by_itself(postgres_dsn: str, stores: Open) -> None:
    """The database ends its transaction after five seconds; the setting goes with the transaction."""
    make_due(postgres_dsn, stores(postgres_dsn), "a")
    with user_transaction(postgres_dsn) as frozen:

        def patience() -> str:
            row = frozen.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
            assert row is not None
            return str(row[0])

        before = patience()
        frozen.run("fire.pick", limit=1, without=[])
        assert patience() == "5s"
        frozen.connection.rollback()
        assert patience() == before


def test_removing_a_schedule_waits_for_its_tick_and_takes_it_along(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    make_due(postgres_dsn, store, "a")
    with user_transaction(postgres_dsn) as firing:
        (row,) = firing.run("fire.pick", limit=1, without=[])
        firing.connection.execute(BE_PATIENT)
        removing = Waiting(lambda: store.schedules.remove("a"))
        until_blocked(postgres_dsn, removing)
        tick = f'[{{"schedule":"a","at":"{row[18].isoformat()}","fired_at":"{row[-1].isoformat()}",'
        firing.run("fire.ticks", ticks=f'{tick}"job":"019b0000-0000-7000-8000-000000000000","covers":1}}]')
        firing.connection.commit()
        removing.result()
    with pytest.raises(ScheduleNotFoundError):
        store.schedules.get("a")
    assert store.schedules.ticks("a") == []


def test_many_instances_at_one_moment_make_one_job_each_tick(postgres_dsn: str, stores: Open) -> None:
    store = stores(postgres_dsn)
    names = [f"s{n}" for n in range(40)]
    others = [stores(postgres_dsn) for _ in range(6)]
    for round_number in range(3):
        make_due(postgres_dsn, store, *names)
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda other: other.schedules.fire_due(10), others * 8))
        fired = Counter(item.schedule for answer in answers for item in answer if item.ticks)
        assert fired == Counter(names)
        assert store.phases.counts()["work"].queued == 40 * (round_number + 1)
        time.sleep(1.1)  # the next round has due times of its own
