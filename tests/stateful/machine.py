"""What both machines share: a store on a fresh database whose clock is moved by rules, and the run of many random lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.conformance.life import BOOM
from windlass.clock import ManualClock
from windlass.errors import LeaseLost
from windlass.features import Store, open_store
from windlass.model import Lease, Retried, Verdict
from windlass.store.jobs.holder import Holder


class StoreMachine(RuleBasedStateMachine):
    """One store on a database of its own."""

    make_url: Callable[[], str]
    free_url: Callable[[str], None]

    def open_store(self) -> None:
        self.clock = ManualClock()
        self.url = type(self).make_url()
        self.store: Store = open_store(self.url, clock=self.clock)
        self.store.upkeep.maintain()
        self.now = 0.0
        self.leases: list[tuple[Lease, int]] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.finish_everything()
            self.store.close()
            type(self).free_url(self.url)

    def finish_everything(self) -> None:
        """What a machine checks at the end of a life."""

    def move_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.now += seconds


def run_lives(
    machine: type[StoreMachine],
    make_url: Callable[[], str],
    free_url: Callable[[str], None],
    *,
    examples: int,
    steps: int,
    **attributes: Any,
) -> None:
    """Run many random lives, each of at most so many steps on a database of its own."""
    attributes |= {"make_url": staticmethod(make_url), "free_url": staticmethod(free_url)}
    run_state_machine_as_test(
        type("Machine", (machine,), attributes),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            report_multiple_bugs=False,
            phases=[phase for phase in Phase if phase is not Phase.shrink] if examples > 100 else list(Phase),
        ),
    )


def sqlite_files(folder: Path) -> tuple[Callable[[], str], Callable[[str], None]]:
    """Makes and removes the databases of one run."""
    numbers: Iterator[int] = iter(range(10**9))

    def remove(url: str) -> None:
        for path in folder.glob(f"{url.rpartition('/')[2]}*"):
            path.unlink()

    return lambda: f"sqlite:///{folder}/{next(numbers)}.db", remove


def record(holder: Holder, lease: Lease, how: str) -> Verdict:
    """Record the end of an attempt; a lost lease is a verdict, too."""
    with suppress(LeaseLost):
        match how:
            case "complete":
                return holder.complete(lease, how)
            case "fail":
                return holder.fail(lease, BOOM)
            case "cancel":
                return holder.cancel(lease)
            case "release":
                return holder.release(lease)
            case "advance":
                return holder.advance(lease, "next", how, max_attempts=2)
            case _:
                return holder.record([Retried(lease, BOOM, timedelta(seconds=10))])[0]
    return Verdict.LOST
