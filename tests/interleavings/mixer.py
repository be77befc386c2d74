"""One of several processes that record every kind of outcome in mixed batches until nothing is left to run.

    python -m tests.interleavings.mixer URL SEED

It does an engine's upkeep in between, cancels jobs of others now and then, and says nothing but "ready".
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from datetime import timedelta

from windlass.errors import IllegalTransitionError, JobNotFoundError
from windlass.features import Store, open_store
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Failed,
    JobError,
    Key,
    Lease,
    NewJob,
    Outcome,
    Released,
    Retried,
    Want,
)

PHASES = ("first", "second")
BOOM = JobError(type="Boom", code="boom", message="it broke")


def decide(chance: random.Random, lease: Lease) -> Outcome:
    """Any outcome; a job that was tried often enough completes."""
    draw = chance.random()
    if draw < 0.06:
        return Failed(lease, BOOM)
    if draw < 0.18:
        return Retried(lease, BOOM, timedelta(0), counted=chance.random() < 0.5)
    if draw < 0.22:
        return Cancelled(lease)
    if draw < 0.34 and lease.phase == PHASES[0]:
        return Advanced(lease, PHASES[1], {"seed": chance.randrange(9)})
    if draw < 0.44:
        return Released(lease, counted=False)
    return Completed(lease, {"ok": True})


def left(store: Store) -> int:
    counts = store.phases.counts().values()
    return sum(one.queued + one.processing + one.scheduled for one in counts)


def main(url: str, seed: int) -> None:
    chance = random.Random(seed)
    with open_store(url) as store:
        holder = store.join()
        print("ready", flush=True)
        sys.stdin.readline()
        seen: list[str] = []
        outcomes: list[Outcome] = []
        while True:
            phases = chance.sample(PHASES, chance.choice((1, 2)))
            wants = [Want(phase, chance.choice((1, 20, 60))) for phase in phases]
            claimed = list(holder.step(outcomes, *wants).claimed)
            seen += [lease.id for lease in claimed]
            for lease in claimed[:2]:
                holder.checkpoint(lease, done=1, total=2)
            if claimed and chance.random() < 0.2:
                store.enqueue([NewJob(kind="extra", phase=PHASES[0], key=Key(f"k{chance.randrange(30)}"))])
            chance.shuffle(claimed)
            outcomes = [decide(chance, lease) for lease in claimed]
            store.upkeep.promote()
            store.dependencies.link()
            if seen and chance.random() < 0.5:
                with suppress(IllegalTransitionError, JobNotFoundError):
                    store.jobs.cancel(chance.choice(seen[-200:]))
            if chance.random() < 0.1:
                store.upkeep.fold()
                holder.beat()
            if not claimed and not outcomes and left(store) == 0:
                break


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
