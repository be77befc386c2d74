"""The fault of an executor that cannot start jobs: reported in the health of the instance; its jobs are given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from windlass.engine.running_attempt import RunningAttempt
from windlass.observe import events

REPORT_EVERY = 10.0


class Fault:
    """The fault of one executor. ``reason`` is None if there is none; the executor resets it when it starts a job. From any thread.

    ``on_unstarted`` is called with jobs that were not started, and whether to give them back; their phases pause for a moment.
    """

    __slots__ = ("_on_unstarted", "_quiet_until", "executor", "reason")

    def __init__(
        self,
        executor: str,
        on_unstarted: Callable[[Sequence[RunningAttempt], bool], None] = lambda jobs, back: None,
    ) -> None:
        self.executor = executor
        self.reason: str | None = None
        self._on_unstarted = on_unstarted
        self._quiet_until = 0.0

    def give_back(self, why: str, jobs: Sequence[RunningAttempt]) -> None:
        """Report jobs that cannot be started, and give them back: another instance may run them, or this one a moment later."""
        self._report(why, jobs)
        self._on_unstarted(jobs, True)

    def note(self, why: str, jobs: Sequence[RunningAttempt] = ()) -> None:
        """Report jobs that could not be started; the executor itself handles them."""
        self._report(why, jobs)
        self._on_unstarted(jobs, False)

    def _report(self, why: str, jobs: Sequence[RunningAttempt]) -> None:
        self.reason = why
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + REPORT_EVERY
            events.executor_failed(self.executor, why, jobs)
