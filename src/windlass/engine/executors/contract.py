"""What every executor is: it is given batches of running jobs and reports their ends in batches. It may be called from any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from windlass.engine.executors.fault import Fault
from windlass.engine.running_attempt import RunningAttempt
from windlass.model import Outcome


class Ended(NamedTuple):
    """A job that came to its end on a processor; no outcome where its lease is lost or its end is recorded already."""

    running: RunningAttempt
    outcome: Outcome | None


ended = partial(tuple.__new__, Ended)
"""``Ended`` from a pair, for the busiest path: a third of the price of its own constructor."""

OnEnded = Callable[[Sequence[Ended]], None]


class Executor(Protocol):
    """Hosts handlers."""

    fault: Fault

    def submit(self, batch: Sequence[RunningAttempt]) -> None:
        """Run these jobs, each at once. Raises only where none of them was started."""
        ...

    def stop_job(self, running: RunningAttempt) -> None:
        """Make a job stop that was told to (``running.stop`` is set), as far as this executor can."""
        ...

    def close(self, *, wait: float = 0.0) -> None:
        """Stop hosting; jobs that still run are left to their fate after ``wait`` seconds."""
        ...
