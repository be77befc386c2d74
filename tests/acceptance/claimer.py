"""One instance as a real process: claims until nothing is queued, completes every second job, writes down what it got.

    python -m tests.acceptance.claimer URL PHASE BATCH FILE

It says "ready" on its standard output and starts when it is told anything on its standard input. Each line of FILE is
``claim id token attempt priority``; a claim is one call, numbered from 0.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from windlass.features import open_store
from windlass.model import Completed, Outcome, Want


def main(url: str, phase: str, batch: int, file: Path) -> None:
    with open_store(url) as store, file.open("w") as out:
        holder = store.join()
        print("ready", flush=True)
        sys.stdin.readline()
        number, outcomes = 0, list[Outcome]()
        while True:
            claimed = holder.step(outcomes, Want(phase, batch)).claimed
            if number < 20:
                time.sleep(0.01)  # the others begin to race meanwhile
            for lease in claimed:
                print(number, lease.id, lease.token, lease.attempt, lease.priority, file=out)
            outcomes = [Completed(lease) for lease in claimed[::2]]
            number += 1
            # An empty claim may have started at a low-water mark; only the counts know that nothing is left.
            if not claimed and store.phases.counts()[phase].queued == 0:
                break


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
