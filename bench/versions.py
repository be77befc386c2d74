"""This checkout beside another one: the same measurements in turns, so that the load of the machine meets both.

The order changes from round to round. Each version is compared with the other of the same round, and the median of the rounds counts.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import own
from bench.peers.results import Result
from bench.peers.run import Peer
from bench.report import Row, say, show
from bench.server import postgres

WANTED = 0.97

Measurement = Callable[[Peer, str], Result]


class NotSetUpError(Exception):
    """A folder is no checkout that can run."""


def run(other: Path, *, jobs: int, seconds: float, rounds: int, output: Path | None) -> bool:
    """Measure both checkouts; returns whether this one has at least 0.97 of the other's rates."""
    measurements: dict[str, Measurement] = {
        "drain": lambda peer, place: peer.measure_drain(place, jobs),
        "enqueue one at a time": lambda peer, place: peer.measure_enqueue(place, seconds),
        "enqueue in bulk": lambda peer, place: peer.measure_bulk(place, jobs),
    }
    rows: list[Row] = []
    with postgres() as url, tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        for peer in (own.WINDLASS, own.WINDLASS_SQLITE):
            place = url if peer.database == "postgresql" else folder
            old = of_checkout(other, peer)
            for what, measure in measurements.items():
                say(f"{peer.database}: {what}, {rounds} rounds")
                ratios = [_ratio(measure, peer, old, place, number) for number in range(rounds)]
                rows.append(
                    {
                        "what": f"{peer.database}: {what}",
                        "this / other": statistics.median(ratios),
                        "least": min(ratios),
                        "most": max(ratios),
                    }
                )
    show(f"This checkout beside {other}, {rounds} rounds in turns", rows, output)
    return all(row["this / other"] >= WANTED for row in rows)


def of_checkout(checkout: Path, peer: Peer) -> Peer:
    """The same measurement in another checkout, with that checkout's scripts and Python."""
    python, script = checkout / ".venv" / "bin" / "python", checkout / "bench" / "peers" / "scripts"
    if not python.exists() or not script.exists():
        raise NotSetUpError(f"{checkout} is no checkout of Windlass with a .venv; run ./dev setup there")
    return Peer(peer.definition, (str(python), str(script / peer.definition.script)), checkout)


def _ratio(measure: Measurement, this: Peer, other: Peer, place: str, number: int) -> float:
    rates: dict[bool, float] = {}
    for is_this in (True, False) if number % 2 else (False, True):
        result = measure(this if is_this else other, place)
        if "wrong" in result:
            raise RuntimeError(f"{'this' if is_this else 'the other'} checkout: {result['wrong']}")
        rates[is_this] = result["rate"]
    say(f"  round {number + 1}: {rates[True]:,.0f} beside {rates[False]:,.0f} jobs/s")
    return rates[True] / rates[False]
