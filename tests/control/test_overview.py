"""The state of the whole: phases, instances, and what is wrong."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.control.conftest import ANNA, BOSS, OPS
from tests.control.whys import LEASE, Bench
from windlass import App, NotAllowedError
from windlass.clock import ManualClock
from windlass.control.overview import PhaseStatus
from windlass.model.inspection import TableSize
from windlass.store.sqlite import inspection


@pytest.fixture
def bench(app: App, clock: ManualClock) -> Bench:
    return Bench(app, clock)


def _welcome(app: App) -> PhaseStatus:
    (found,) = [phase for phase in app.overview.read().phases if phase.name == "welcome"]
    return found


def test_queued_jobs_without_an_instance_are_a_problem(app: App, bench: Bench) -> None:
    assert app.overview.read().problems == []
    bench.add()
    (problem,) = app.overview.read().problems
    assert problem.startswith("no living instance serves the phase welcome, and 1 job waits there")
    assert _welcome(app).waits == "no living instance serves it"
    bench.serve(phases={"welcome": {"size": 4, "busy": 1, "error": 0, "queue": 2}})
    assert app.overview.read().problems == []
    found = _welcome(app)
    assert (found.busy, found.processors, found.instances, found.waits) == (1, 4, 1, "")


def test_an_instance_that_stops_serves_nothing(app: App, bench: Bench) -> None:
    bench.add()
    bench.serve(state="stopping")
    assert len(app.overview.read().problems) == 1


@pytest.mark.parametrize(
    ("facts", "waits"),
    [
        ({"size": 2, "busy": 2}, "all processors are busy"),
        (
            {"size": 2, "busy": 2, "held": {"next": "report", "queued": 9, "most": 9}},
            "held back: report is full",
        ),
    ],
)
def test_it_says_why_queued_jobs_wait(app: App, bench: Bench, facts: dict[str, object], waits: str) -> None:
    bench.add()
    bench.serve(phases={"welcome": facts})
    assert _welcome(app).waits == waits


def test_a_pause_is_named_and_is_no_problem(app: App, bench: Bench) -> None:
    bench.add()
    app.phases.pause("welcome", "disk is full")
    assert app.overview.read().problems == []
    assert _welcome(app).waits == "paused until it is resumed: disk is full"


def test_an_instance_without_heartbeats_is_lost(app: App, bench: Bench, clock: ManualClock) -> None:
    holder = bench.serve()
    clock.advance(2 * LEASE)
    (instance,) = app.instances.list()
    assert (instance.id, instance.state, instance.is_alive) == (str(holder.id), "lost", False)
    (problem,) = app.overview.read().problems
    assert str(holder.id) in problem and "lost" in problem


def test_degraded_parts_are_problems_of_an_instance_that_runs(app: App, bench: Bench) -> None:
    parts = [{"part": "listener", "state": "degraded", "seen": "no notifications", "advice": "Give a URL."}]
    holder = bench.serve(degraded=parts)
    (instance,) = app.instances.list()
    assert [(one.part, one.seen) for one in instance.degraded] == [("listener", "no notifications")]
    (problem,) = app.overview.read().problems
    assert problem.startswith(f"listener of instance {holder.id} on ")
    assert problem.endswith("is degraded: no notifications. Give a URL.")


@pytest.mark.parametrize("facts", [{}, {"degraded": {"of": "another release"}}, {"degraded": ["listener"]}])
def test_a_board_without_degraded_parts_is_no_problem(
    app: App, bench: Bench, facts: dict[str, object]
) -> None:
    bench.serve(**facts)
    (instance,) = app.instances.list()
    assert not instance.degraded and not app.overview.read().problems


def test_only_those_who_see_all_jobs_see_it(app: App, bench: Bench) -> None:
    bench.serve()
    for who in (ANNA, OPS):
        with pytest.raises(NotAllowedError):
            app.acting_as(who).overview.read()
        with pytest.raises(NotAllowedError):
            app.acting_as(who).instances.list()
    assert len(app.acting_as(BOSS).instances.list()) == 1
    assert asyncio.run(app.overview.read_async()).problems == []


def test_the_sizes_of_tables_are_known(app: App) -> None:
    for _ in range(30):
        app.enqueue("welcome", user=os.urandom(1500).hex())  # PostgreSQL compresses what repeats
    found = {one.table: one for one in app.doctor.tables()}
    live = found["job" if "job" in found else "windlass_job"]
    assert live.bytes is not None and live.bytes > 30 * 1500
    if "windlass_job" in found:
        assert live.rows == 30
    assert not [name for name in found if name.startswith("job_done_")], "partitions belong to their table"
    sizes = [one.bytes or 0 for one in found.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_a_file_that_takes_long_is_not_walked_over_for_every_board(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, walks = [0.0], []

    def walk(url: str) -> list[TableSize]:
        walks.append(url)
        now[0] += 0.25
        return [TableSize(f"walk {len(walks)}", 0, 0)]

    monkeypatch.setattr(inspection, "_walk", walk)
    monkeypatch.setattr(inspection, "time", SimpleNamespace(monotonic=lambda: now[0]))
    app = App(f"sqlite:///{sqlite_path}")
    with app:
        first = app.doctor.tables()
        now[0] += 24.0
        assert app.doctor.tables() == first and len(walks) == 1
        now[0] += 2.0
        assert app.doctor.tables() != first and len(walks) == 2
