"""Whether an executor can start jobs, as its last try showed: for the health of the instance, and to give back what it cannot run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from windlass.engine.running_attempt import RunningAttempt
from windlass.observe import events

SPEAK_EVERY = 10.0


class Fault:
    """The fault of one executor. ``reason`` is None where there is none; whoever starts a job sets it so. From any thread.

    ``on_unstarted`` takes jobs that were not started, and whether they have to be given back: their phases are left alone for a moment.
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
        """These jobs cannot be started here: another instance may have them, or this one a moment later."""
        self._tell(why, jobs)
        self._on_unstarted(jobs, True)

    def note(self, why: str, jobs: Sequence[RunningAttempt] = ()) -> None:
        """These jobs could not be started, and the executor itself says what becomes of them."""
        self._tell(why, jobs)
        self._on_unstarted(jobs, False)

    def _tell(self, why: str, jobs: Sequence[RunningAttempt]) -> None:
        self.reason = why
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + SPEAK_EVERY
            events.executor_failed(self.executor, why, jobs)
