"""The protocol of executors: they are given batches of jobs and report their ends in batches. They are called from any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from windlass.engine.executors.fault import Fault
from windlass.engine.running_attempt import RunningAttempt
from windlass.model import Outcome


class Ended(NamedTuple):
    """A job that ended on a processor; no outcome if its lease is lost or its end is recorded already."""

    running: RunningAttempt
    outcome: Outcome | None


ended = partial(tuple.__new__, Ended)
"""Makes an ``Ended`` from a pair, in a third of the constructor's time."""

OnEnded = Callable[[Sequence[Ended]], None]


class Executor(Protocol):
    """Runs handlers."""

    fault: Fault

    def submit(self, batch: Sequence[RunningAttempt]) -> None:
        """Run these jobs, each at once. Raises only if none of them was started."""
        ...

    def stop_job(self, running: RunningAttempt) -> None:
        """Make a job stop that was asked to (``running.stop`` is set), as far as this executor can."""
        ...

    def close(self, *, wait: float = 0.0) -> None:
        """Stop running jobs; jobs that still run after ``wait`` seconds are abandoned."""
        ...
