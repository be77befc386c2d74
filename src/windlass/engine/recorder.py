"""Collects the outcomes of attempts until the step thread writes them, then counts and logs them.

Executors add outcomes from their threads; the step thread takes up to a page of them whenever it is free. Under low load each outcome
is written at once, under high load in pages. When the database is slow or away, outcomes wait here, and since the same thread claims,
no new job begins meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.engine.announcer import Announcer
from windlass.engine.running_attempt import RunningAttempt
from windlass.engine.stats import Stats
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Failed,
    Lease,
    Outcome,
    Recovered,
    Released,
    Retried,
    Run,
    Verdict,
)
from windlass.observe import current_job as current
from windlass.observe import events
from windlass.observe.logger import get_logger

log = get_logger("windlass.engine")

_NAMES = {
    Completed: "completed",
    Failed: "failed",
    Retried: "retried",
    Cancelled: "cancelled",
    Advanced: "advanced",
    Released: "released",
}


@dataclass(slots=True, eq=False)
class Delayed:
    """An outcome whose write the server aborted: it waits for its next try, and no other outcome waits for it."""

    outcome: Outcome
    since: float
    due_at: float
    tries: int = 1


class Recorder:
    """Outcomes that are not written yet."""

    def __init__(self, stats: Stats, announcer: Announcer | None = None) -> None:
        self._stats = stats
        self._announcer = announcer
        self._waiting: deque[Outcome] = deque()
        self._elsewhere: deque[tuple[Lease, str, Run]] = deque()
        self._expected: set[tuple[str, int]] = set()
        self.delayed: list[Delayed] = []
        """Outcomes to be written one by one, each when it is due; changed by the step thread only."""
        self._taken = 0  # being written; changed by the step thread only

    def put(self, outcomes: Iterable[Outcome]) -> None:
        """Add outcomes; from any thread."""
        self._waiting.extend(outcomes)

    def take(self, limit: int) -> list[Outcome]:
        """Up to ``limit`` outcomes, oldest first; step thread only."""
        waiting = self._waiting
        count = min(limit, len(waiting))
        self._taken += count
        return [waiting.popleft() for _ in range(count)]

    def put_back(self, outcomes: Sequence[Outcome]) -> None:
        """Put outcomes that could not be written back to the front."""
        self._waiting.extendleft(reversed(outcomes))

    def settled(self, outcomes: Sequence[Outcome]) -> None:
        """Note that taken outcomes are dealt with: written and counted, put back, or given up."""
        self._taken -= len(outcomes)

    def recorded(
        self,
        outcomes: Sequence[Outcome],
        verdicts: Sequence[Verdict],
        reasons: Mapping[str, str] | None = None,
    ) -> Counter[str]:
        """Count and log written outcomes; returns how many jobs of each phase ended. ``reasons`` has the reasons of cancels, by job id."""
        if (announcer := self._announcer) is not None and announcer.is_asked:
            announcer.recorded(outcomes)
        ended: Counter[str] = Counter()
        plain: dict[str, list[Run | None]] = {}
        is_debug = log.isEnabledFor(logging.DEBUG)
        for outcome, verdict in zip(outcomes, verdicts, strict=True):
            phase = outcome.lease.phase
            if type(outcome) is Completed and verdict is Verdict.RECORDED and not is_debug:
                plain.setdefault(phase, []).append(outcome.run)
                continue
            name = outcome_name(outcome, verdict)
            if self._expected and self._was_expected(outcome.lease) and verdict is Verdict.ALREADY_RECORDED:
                name = "completed"
            self._stats.ended_many(phase, name, [outcome.run])
            ended[phase] += 1
            try:
                events.ended(outcome, name, reasons.get(outcome.lease.id) if reasons else None)
            except Exception:  # the outcome is written, even if logging it fails
                log.exception(
                    "the end of job %s could not be logged",
                    outcome.lease.id,
                    extra=current.lease_fields(outcome.lease),
                )
        for phase, runs in plain.items():
            self._stats.ended_many(phase, "completed", runs)
            ended[phase] += len(runs)
        return ended

    def count_elsewhere(self) -> list[Lease]:
        """Count the jobs that were recorded elsewhere since, and return them; step thread only."""
        ended: list[Lease] = []
        while self._elsewhere:
            lease, name, run = self._elsewhere[0]
            self._stats.ended_many(lease.phase, name, [run])
            events.ended_elsewhere(lease, name, run)
            ended.append(lease)
            if self._announcer is not None and self._announcer.is_asked:
                self._announcer.ended([lease.id])
            self._elsewhere.popleft()  # last: until it is counted, the recorder is not empty
        return ended

    def recovered(self, item: Recovered) -> None:
        """Count and log the attempt of a dead instance, whose end was recorded here; a held attempt ends later. From any thread."""
        if item.outcome is not None:
            reasons = None if item.reason is None else {item.job_id: item.reason}
            self.recorded([item.outcome], [item.standing], reasons)
        elif not item.is_held:  # back in its queue, which job.recovered reports
            self._stats.ended_many(item.lease.phase, "released", [None])

    def recorded_elsewhere(self, running: RunningAttempt) -> None:
        """Note a job whose end its own transaction wrote, or whose lease is lost; from any thread."""
        is_recorded = running.context is not None and running.context.is_recorded
        run = running.run(time.monotonic())
        self._elsewhere.append((running.lease, "completed" if is_recorded else "lost", run))

    def expect_elsewhere(self, lease: Lease) -> None:
        """Note a job whose end its own transaction may have written; the verdict of its outcome decides. From any thread, before the outcome
        is added."""
        self._expected.add((lease.id, lease.token))

    def _was_expected(self, lease: Lease) -> bool:
        key = (lease.id, lease.token)
        was_expected = key in self._expected
        self._expected.discard(key)
        return was_expected

    def __len__(self) -> int:
        """How many outcomes are not written and counted yet."""
        return len(self._waiting) + self._taken + len(self._elsewhere) + len(self.delayed)


def outcome_name(outcome: Outcome, verdict: Verdict) -> str:
    """The name of an outcome as the database recorded it."""
    if verdict is Verdict.LOST:
        return "lost"
    if verdict is Verdict.CANCELLED:
        return "cancelled"
    if verdict is Verdict.REROUTED:  # the store logs its new phase
        return "completed" if isinstance(outcome, Advanced) else "advanced"
    if (
        isinstance(outcome, Retried)
        and outcome.counted
        and outcome.lease.attempt >= outcome.lease.max_attempts
    ):
        return "failed"  # the budget is spent
    return _NAMES[type(outcome)]
