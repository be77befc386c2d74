"""A holder as a real process that does what it is told, one word at a time, and can be frozen or killed in between.

    python -m tests.acceptance.holding URL PHASE LEASE_SECONDS

It says "ready", then answers each line of its standard input with one line:

    claim N     the tokens it got
    effect      opens an effect transaction of its first job, inserts into table `effect` and locks the job's row
    commit      ends that transaction with the job's completion: "committed", or the error's name
    complete, checkpoint, beat, output, fail     the verdict, or the error's name
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import timedelta

from windlass.errors import WindlassError
from windlass.features import open_store
from windlass.model import JobError, Lease
from windlass.store.jobs.effects import EffectTransaction
from windlass.store.jobs.holder import Holder


class Hand:
    """What the words mean."""

    def __init__(self, holder: Holder, phase: str) -> None:
        self.holder, self.phase = holder, phase
        self.leases: list[Lease] = []
        self.stack = ExitStack()
        self.open: EffectTransaction | None = None

    def do(self, word: str, *arguments: str) -> object:
        if word == "claim":
            self.leases = list(self.holder.claim(self.phase, int(arguments[0])))
            return " ".join(str(lease.token) for lease in self.leases)
        lease = self.leases[0]
        match word:
            case "effect":
                self.open = self.stack.enter_context(self.holder.transaction(lease))
                self.open.connection.execute("INSERT INTO effect VALUES ('held')")
                self.open.put_output(1, name="lock")
                return "inside"
            case "commit":
                assert self.open is not None
                self.open.complete()
                self.stack.close()
                return "committed"
            case "complete":
                return self.holder.complete(lease)
            case "fail":
                return self.holder.fail(lease, JobError(type="E", code="e", message="e"))
            case "checkpoint":
                return self.holder.checkpoint(lease, done=1)
            case "output":
                return self.holder.put_output(lease, 1).created
            case "beat":
                return self.holder.beat().released
        raise AssertionError(word)


def main(url: str, phase: str, lease: float) -> None:
    with open_store(url) as store:
        hand = Hand(store.join(lease=timedelta(seconds=lease)), phase)
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                answer = hand.do(*line.split())
            except WindlassError as error:
                answer = type(error).__name__
            print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
