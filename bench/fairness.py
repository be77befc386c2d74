"""Whether jobs wait in the memory of one instance while another one is idle: four workers of five processors beside one worker of twenty.

Jobs of 20 ms come from independent callers (Poisson), at 0.8 of what twenty processors can do. Both have the same moments; the single worker
has every processor within its reach, so what the four need beyond its wait is the price of being four.
"""

from __future__ import annotations

from pathlib import Path

from bench import own
from bench.compare import Figures
from bench.report import say, show
from bench.server import postgres, version

WORKERS, REST, LOAD = 4, 0.02, 0.8
PER_SECOND = LOAD * 20 / REST
MOST = 2.0
CASES = ((own.WINDLASS_TWENTY, 1), (own.WINDLASS_FIVE, WORKERS))


def run(*, samples: int, rounds: int, output: Path | None) -> bool:
    """Measure both in turns; True where the four wait at most twice as long."""
    figures = Figures()
    with postgres() as admin:
        say(f"PostgreSQL {version(admin)}, fsync on; {PER_SECOND:g} jobs/s")
        for number in range(rounds):
            for peer, workers in CASES if number % 2 == 0 else CASES[::-1]:
                found = peer.measure_latency(
                    admin, samples, 1 / PER_SECOND, is_random=True, rest=REST, processes=workers
                )
                say(
                    f"round {number + 1}: {workers} x {peer.name}: {found.get('wrong', '')} mean {found['mean_ms']:.2f} ms, "
                    f"p50 {found['p50_ms']:.2f}, p99 {found['p99_ms']:.2f}"
                )
                if "wrong" not in found:
                    figures.note(peer.name, "mean wait, ms", number, found["mean_ms"])
    figures.ratio(
        f"mean wait of {WORKERS} workers, of that of one with all processors",
        (own.WINDLASS_FIVE.name, "mean wait, ms"),
        (own.WINDLASS_TWENTY.name, "mean wait, ms"),
        MOST,
        at_most=True,
    )  # fmt: skip
    show("Milliseconds from the return of enqueue to the start of the handler", figures.tables(), None)
    show("Claims", figures.verdicts, output)
    return figures.hold
