"""Suspects stand in line: when an instance dies, everything it had claimed becomes one, and only a few may run at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine import process_handlers as handlers
from tests.engine.process_bench import ProcessBench, begun, benches, wait_until
from windlass.engine.running import Stop
from windlass.model import Cancelled, Completed, Released

pytestmark = pytest.mark.timing

__all__ = ["benches"]
Benches = Callable[..., ProcessBench]


def count(folder: Path) -> int:
    return sum(path.exists() for path in folder.glob("begun-*"))


def test_only_a_few_run_at_once_and_the_others_follow(benches: Benches, tmp_path: Path) -> None:
    bench = benches(most_suspects=2)
    go = tmp_path / "go"
    jobs = [bench.start(handlers.wait_for, path=str(tmp_path / f"begun-{n}"), go=str(go)) for n in range(7)]
    wait_until(lambda: count(tmp_path) == 2, "the first two begin")
    assert len(bench.executor.pids) == 2
    assert jobs[-1].processor.progress_at > jobs[0].processor.progress_at + 1000, "its time has not begun"
    go.touch()
    assert all(isinstance(bench.outcome(job), Completed) for job in jobs)
    assert begun(tmp_path / "begun-6") and len(bench.executor.pids) == 2


def test_one_in_line_can_be_stopped_without_having_run(benches: Benches, tmp_path: Path) -> None:
    bench = benches(most_suspects=1)
    first = bench.start(handlers.sleep, path=str(tmp_path / "begun-0"))
    second = bench.start(handlers.sleep, path=str(tmp_path / "begun-1"))
    wait_until(lambda: count(tmp_path) == 1, "the first begins")
    bench.stop(second, Stop.CANCELLED)
    assert isinstance(bench.outcome(second), Cancelled)
    third = bench.start(handlers.sleep, path=str(tmp_path / "begun-2"))
    bench.stop(first, Stop.TIME_LIMIT)
    bench.outcome(first)
    wait_until(lambda: (tmp_path / "begun-2").exists(), "the next takes its place")
    bench.stop(third, Stop.TIME_LIMIT)
    bench.outcome(third)
    assert not (tmp_path / "begun-1").exists()


def test_those_in_line_are_given_back_when_it_closes(benches: Benches, tmp_path: Path) -> None:
    bench = benches(most_suspects=1)
    jobs = [bench.start(handlers.sleep, path=str(tmp_path / f"begun-{n}")) for n in range(3)]
    wait_until(lambda: count(tmp_path) == 1, "the first begins")
    bench.close()
    assert [type(bench.outcome(job)) for job in jobs] == [Released] * 3
    assert count(tmp_path) == 1
