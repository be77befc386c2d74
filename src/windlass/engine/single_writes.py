"""Writes outcomes one by one: outcomes of a page that the database refused, and outcomes whose write it aborted."""

from __future__ import annotations

import time
from collections.abc import Sequence

from windlass.arguments.json_checks import explain
from windlass.engine.instance import Instance
from windlass.engine.recorder import Delayed, Recorder
from windlass.engine.stats import Stats
from windlass.errors import FAULTS_OF_THE_STORE, StoreInterruptedError
from windlass.model import Failed, JobError, Outcome
from windlass.observe.logger import get_logger

log = get_logger("windlass.engine")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
PATIENCE = 3
"""If the server aborts the write of an outcome (lock, time-out, memory) this often, and for as long as a lease, its job ends with that
error."""


class SingleWrites:
    """Finds the outcome that the database refuses, so that the others are written; step thread only.

    Raises if the database accepts no write at all; outcomes that were not written are back in the recorder then.
    """

    def __init__(self, instance: Instance, recorder: Recorder, stats: Stats, *, lease: float) -> None:
        self._instance = instance
        self._recorder = recorder
        self._stats = stats
        self._lease = lease

    def write(self, outcomes: Sequence[Outcome]) -> bool:
        """Write the outcomes of a refused page; False if one of them has to be tried again later."""
        is_written = True
        for number, outcome in enumerate(outcomes):
            try:
                self._record(outcome)
            except FAULTS_OF_THE_STORE:
                self._recorder.put_back(outcomes[number:])
                raise
            except StoreInterruptedError as given_up:
                log.warning(
                    "the database aborted the record of the end of job %s (%s); it is tried again",
                    outcome.lease.id,
                    given_up,
                )
                now = time.monotonic()
                self._recorder.delayed.append(Delayed(outcome, now, now + SHORTEST_PAUSE))
            except Exception:
                log.exception("the end of job %s cannot be recorded now; it is tried again", outcome.lease.id)
                self._recorder.put_back([outcome])
                is_written = False
        return is_written

    def next_try(self, *, is_over: bool) -> float:
        """Seconds until the next try of an outcome whose write was aborted; there is one."""
        if is_over:
            return SHORTEST_PAUSE
        return max(0.0, min(item.due_at for item in self._recorder.delayed) - time.monotonic())

    def try_again(self, *, is_over: bool) -> None:
        """Write outcomes whose write was aborted before: each alone, with its own pauses, so that no other work is delayed."""
        for item in list(self._recorder.delayed):
            if item.due_at > time.monotonic() and not is_over:
                continue
            try:
                self._record(item.outcome, item)
            except FAULTS_OF_THE_STORE:
                raise
            except Exception as error:  # noqa: BLE001  the outcome is kept after any error
                log.debug("the end of job %s cannot be recorded yet (%s)", item.outcome.lease.id, error)
                self._stats.count("step_errors")
                item.due_at = time.monotonic() + min(LONGEST_PAUSE, SHORTEST_PAUSE * 2**item.tries)
                item.tries += 1
            else:
                self._recorder.delayed.remove(item)

    def _record(self, outcome: Outcome, before: Delayed | None = None) -> None:
        """Record one outcome. A job whose outcome cannot be stored ends with an error that says so; if that fails, too, the outcome is not the
        cause. A write that the server aborted may succeed the next time."""
        try:
            step = self._instance.holder.step([outcome])
        except FAULTS_OF_THE_STORE:
            raise
        except Exception as refused:
            if isinstance(refused, StoreInterruptedError) and not self._is_hopeless(before):
                raise
            error = JobError(type=type(refused).__name__, code="unrecordable", message=explain(refused))
            outcome = Failed(outcome.lease, error)
            step = self._instance.holder.step([outcome])
        self._recorder.recorded([outcome], step.verdicts, step.reasons)

    def _is_hopeless(self, before: Delayed | None) -> bool:
        if before is None or before.tries < PATIENCE:
            return False
        return time.monotonic() - before.since >= self._lease
