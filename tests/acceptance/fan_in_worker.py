"""One instance as a real process, for fan_ins.py: ends parents at the instants it is told, runs children, and does its share of upkeep.

    python -m tests.acceptance.fan_in_worker URL NUMBER

It says "ready" and then answers each line of its standard input with one line:

    early                 ends everything in its queue for early parents, in batches of random size: "done"
    final START SLOT      claims its last parents, says "holding", and ends the one of group g at START + g * SLOT: "done"
    children              completes whatever children there are: their groups, as JSON
"""

from __future__ import annotations

import json
import random
import sys
import time

from windlass.features import Store, open_store
from windlass.model import Cancelled, Completed, Failed, JobError, Lease, Outcome
from windlass.store.jobs.holder import Holder

BOOM = JobError(type="Boom", code="boom", message="it broke")
CHILDREN = ("child", "after")


def outcome(lease: Lease) -> Outcome:
    """What a parent was told to come to; a retried one completes."""
    fate = lease.args["fate"] if lease.generation == 1 else "complete"
    if fate == "fail":
        return Failed(lease, BOOM)
    return Cancelled(lease) if fate == "cancel" else Completed(lease, {"g": lease.args["g"]})


class Worker:
    """What the words mean."""

    def __init__(self, store: Store, number: int) -> None:
        self.store, self.number = store, number
        self.holder: Holder = store.join()
        self.chance = random.Random(number)
        self.beaten = time.monotonic()

    def upkeep(self) -> bool:
        if time.monotonic() - self.beaten > 5:
            self.holder.beat()
            self.beaten = time.monotonic()
        return bool(self.store.dependencies.link() or sum(self.store.upkeep.promote().values()))

    def early(self) -> None:
        phase = f"early-{self.number}"
        while True:
            leases = self.holder.claim(phase, self.chance.choice((1, 7, 60, 200)))
            if leases:
                self.holder.record([outcome(lease) for lease in leases])
            self.upkeep()
            if not leases and not self.store.phases.counts()[phase].queued:
                return

    def hold(self) -> list[Lease]:
        phase, held = f"final-{self.number}", list[Lease]()
        while True:
            leases = self.holder.claim(phase, 500)
            held += leases
            if not leases and not self.store.phases.counts()[phase].queued:
                return sorted(held, key=lambda lease: (lease.args["slot"], lease.id))
            self.upkeep()

    def final(self, held: list[Lease], start: float, slot: float) -> None:
        for lease in held:
            while (left := start + lease.args["slot"] * slot - time.time()) > 0:
                if left > 0.02:
                    self.upkeep()
                elif left > 0.002:
                    time.sleep(left / 2)
            self.holder.record([outcome(lease)])

    def children(self) -> list[list[object]]:
        ran: list[list[object]] = []
        idle = 0
        while idle < 3:
            leases = [lease for phase in CHILDREN for lease in self.holder.claim(phase, 100)]
            self.holder.record([Completed(lease) for lease in leases])
            ran += [[lease.kind, lease.args["g"], lease.id] for lease in leases]
            moved = self.upkeep()
            waiting = sum(
                self.store.phases.counts()[phase].queued
                for phase in CHILDREN
                if phase in self.store.phases.counts()
            )
            idle = 0 if leases or moved or waiting else idle + 1
        return ran


def main(url: str, number: int) -> None:
    with open_store(url) as store:
        worker = Worker(store, number)
        print("ready", flush=True)
        for line in sys.stdin:
            match line.split():
                case ["early"]:
                    worker.early()
                    print("done", flush=True)
                case ["final", slot]:
                    held = worker.hold()
                    print("holding", flush=True)
                    worker.final(held, float(sys.stdin.readline()), float(slot))
                    print("done", flush=True)
                case ["children"]:
                    print(json.dumps(worker.children()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
