"""A steady load on a store: claim, complete, claim the next, as an engine's step thread would."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from windlass.features import Store
from windlass.model import Completed, Json, Lease, NewJob, Want

ARGS = Json('{"user_id":7,"text":"' + "x" * 75 + '"}')


def fill(store: Store, n: int, kind: str = "noop", batch: int = 10_000) -> None:
    """Enqueue n jobs of about 100 bytes."""
    for start in range(0, n, batch):
        store.enqueue([NewJob(kind=kind, args=ARGS) for _ in range(min(batch, n - start))])


@dataclass
class Drainer:
    """Finishes what it holds and claims the next batch, step by step; keeps the queue filled if asked to."""

    store: Store
    batch: int
    kind: str = "noop"
    done: int = 0
    steps: list[float] = field(default_factory=list)

    def run(self, seconds: float | None = None, jobs: int | None = None) -> float:
        """Drain for a time or a number of jobs; jobs per second."""
        holder = self.store.join()
        held: Sequence[Lease] = ()
        began = time.perf_counter()
        first = self.done
        while True:
            at = time.perf_counter()
            step = holder.step([Completed(lease) for lease in held], Want(self.kind, self.batch))
            self.steps.append(time.perf_counter() - at)
            self.done += len(held)
            held = step.claimed
            spent = time.perf_counter() - began
            is_over = seconds is not None and spent >= seconds
            if is_over or (jobs is not None and self.done - first >= jobs) or (not held and jobs is None):
                break
        holder.record([Completed(lease) for lease in held])
        holder.step()
        holder.leave()
        return (self.done - first) / (time.perf_counter() - began)


class Feeder:
    """Enqueues in the background so that the queue never runs dry."""

    def __init__(self, store: Store, kind: str = "noop", batch: int = 2_000, pause: float = 0.02) -> None:
        self._store, self._kind, self._batch, self._pause = store, kind, batch, pause
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._is_over.wait(self._pause):
            if self._store.phases.counts()[self._kind].queued < 20 * self._batch:
                fill(self._store, self._batch, self._kind)
            self._store.upkeep.fold()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
