"""Everything in one run: the engine beside the bare statement and its peers, interleaved, as ratios with what is wanted of each.

Everybody has a turn in each of several rounds. Who is compared is compared within a round, so that a machine that is slow for a while is
slow for both, and the median of the rounds counts.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import engine, own, peers, shapes
from bench.peers.databases import fresh_database
from bench.peers.run import Peer
from bench.report import Row, say, show
from bench.server import postgres, version
from windlass.store.migrate import migrate


@dataclass(frozen=True)
class Scale:
    """How large the measurements are."""

    rounds: int = 5
    drain: int = 200_000
    peer_drain: int = 60_000
    shapes: int = 30_000
    slow_drain: int = 3_000
    seconds: float = 3.0
    bulk: int = 50_000
    samples: int = 200
    idle: float = 30.0
    backlogs: tuple[int, ...] = (20_000, 1_000_000)
    backlog_jobs: int = 20_000
    snapshot: float = 60.0
    memory: tuple[int, int] = (50_000, 1_000_000)
    load: int = 1_000


SHORT = Scale(
    rounds=1, drain=3_000, peer_drain=2_000, shapes=600, slow_drain=200, seconds=0.3, bulk=2_000, samples=10, idle=1.0,
    backlogs=(3_000, 6_000), backlog_jobs=3_000, snapshot=1.0, memory=(1_000, 3_000), load=200,
)  # fmt: skip


Case = tuple[str, str]
"""Who, and what."""

DEFAULTS = own.WINDLASS_TEN.name
"""Judged: an application has the default settings, ten processors. 1,500 processors are a row of their own."""
TO_PEERS = (
    ("pgqueuer", 1, 2.6),
    ("pgqueuer", 2, 2.2),
    ("graphile-worker", 1, 1.15),
    ("graphile-worker", 2, 1.1),
    ("procrastinate", 1, 50.0),
)
"""Who, with how many processes, and how many times the rate."""
IN_TWO = frozenset(name for name, processes, _ in TO_PEERS if processes == 2)


@dataclass
class Figures:
    """Rates by case and round, and the verdicts on them."""

    rows: list[Row] = field(default_factory=list)
    verdicts: list[Row] = field(default_factory=list)
    _rates: dict[Case, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def note(self, who: str, what: str, number: int, rate: float) -> None:
        """What somebody came to in a round."""
        self._rates[who, what][number] = rate

    def fastest(self, cases: Sequence[Case]) -> Case | None:
        """The case with the best median, of those that were measured."""
        known = [case for case in cases if self._rates.get(case)]
        return max(known, key=lambda case: statistics.median(self._rates[case].values()), default=None)

    def tables(self) -> list[Row]:
        measured: list[Row] = [
            {
                "who": who,
                "what": what,
                "jobs/s": statistics.median(rates.values()),
                "least": min(rates.values()),
                "most": max(rates.values()),
            }
            for (who, what), rates in self._rates.items()
        ]
        return measured

    def judge(
        self, claim: str, value: float, wanted: float, *, at_most: bool = False, among: Sequence[float] = ()
    ) -> None:
        """A claim with the figure seen and the one wanted; ``among`` are the rounds' own figures."""
        holds = value <= wanted if at_most else value >= wanted
        sign = "≤" if at_most else "≥"
        self.verdicts.append(
            {
                "claim": claim,
                "seen": value,
                "least": min(among, default=""),
                "most": max(among, default=""),
                "wanted": f"{sign} {wanted:g}",
                "holds": "yes" if holds else "NO",
            }
        )

    def ratio(
        self, claim: str, one: Case, other: Case | None, wanted: float, *, at_most: bool = False
    ) -> None:
        """A claim about two cases: the median of their ratios in each round. Left out where one of them was not measured."""
        mine, theirs = self._rates.get(one, {}), self._rates.get(other, {}) if other else {}
        ratios = [mine[number] / theirs[number] for number in mine if theirs.get(number)]
        if ratios:
            self.judge(claim, statistics.median(ratios), wanted, at_most=at_most, among=ratios)

    @property
    def hold(self) -> bool:
        return all(row["holds"] == "yes" for row in self.verdicts)


def run(names: Sequence[str], scale: Scale, output: Path | None) -> bool:
    """Measure everything; True when every claim holds."""
    prepared = peers.prepare(names)
    figures = Figures()
    with postgres() as admin, tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        say(f"PostgreSQL {version(admin)}, fsync on; SQLite, synchronous=FULL")
        _drains(figures, admin, folder, prepared.peers, scale)
        for case in shapes.measured(admin, folder, scale.rounds, scale.shapes):
            figures.note(*case)
        _enqueues(figures, admin, folder, prepared.peers, scale)
        _alone(figures, admin, folder, scale)
    _judge(figures, [peer.name for peer in prepared.peers])
    show("Rates, medians of rounds that took turns; no-op jobs of 100 B", figures.tables(), None)
    show("The engine by itself", figures.rows, None)
    show("Claims", figures.verdicts, output)
    for name, why in prepared.missing.items():
        print(f"{name}: {why}")
    return figures.hold


def _drains(figures: Figures, admin: str, folder: str, others: Sequence[Peer], scale: Scale) -> None:
    ours = (own.RAW, own.WINDLASS_TEN, own.WINDLASS)
    runs = [(peer, scale.drain, processes) for peer in ours for processes in (1, 2)]
    runs.append((own.WINDLASS_SQLITE, scale.drain, 1))
    for peer in others:
        jobs = scale.slow_drain if peer.name == "procrastinate" else scale.peer_drain
        runs += [(peer, jobs, processes) for processes in ((1, 2) if peer.name in IN_TWO else (1,))]
    runs.sort(key=lambda run: run[0].database == "sqlite")  # those that are compared stand together
    for number in range(scale.rounds):
        for peer, jobs, processes in runs:
            result = peer.measure_drain(admin if peer.database == "postgresql" else folder, jobs, processes)
            say(f"round {number + 1}: {peer.name}, {processes} process(es): {result['rate']:,.0f} jobs/s")
            if "wrong" in result:
                say(f"  {result['wrong']}")
                continue
            figures.note(peer.name, drain_of(processes), number, result["rate"])


def drain_of(processes: int) -> str:
    return f"drain, {processes} process{'es' if processes > 1 else ''}"


def _enqueues(figures: Figures, admin: str, folder: str, others: Sequence[Peer], scale: Scale) -> None:
    for number in range(scale.rounds):
        with fresh(admin) as url:
            for row in engine.enqueue(url, scale.seconds):
                figures.note("windlass", row["what"], number, row["jobs/s"])
        for row in engine.enqueue(f"sqlite:///{folder}/enqueue.db", scale.seconds):
            figures.note("windlass-sqlite", row["what"], number, row["jobs/s"])
        for peer in others:
            place = admin if peer.database == "postgresql" else folder
            one, many = peer.measure_enqueue(place, scale.seconds), peer.measure_bulk(place, scale.bulk)
            figures.note(peer.name, "enqueue one at a time", number, one["rate"])
            figures.note(peer.name, "enqueue in bulk", number, many["rate"])
            say(f"{peer.name}: {one['rate']:,.0f} one at a time, {many['rate']:,.0f} in bulk")


def _alone(figures: Figures, admin: str, folder: str, scale: Scale) -> None:
    def add(row: Row) -> Row:
        figures.rows.append(row)
        say(
            ", ".join(
                f"{key}: {value:,.2f}" if isinstance(value, float) else str(value)
                for key, value in row.items()
            )
        )
        return row

    with fresh(admin) as url:
        idle = add(engine.pickup(url, scale.samples))
        add(engine.under_load(url, 100, scale.seconds))
        add(engine.under_load(url, scale.load, scale.seconds))
        calm = add(engine.idle(url, scale.idle))
    figures.judge("pickup p50 on PostgreSQL, ms", idle["p50 ms"], 3, at_most=True)
    figures.judge("pickup p99 on PostgreSQL, ms", idle["p99 ms"], 15, at_most=True)
    figures.judge("statements/s of an idle worker", calm["statements/s"], 1, at_most=True)
    lite = add(
        {
            **engine.pickup(f"sqlite:///{folder}/pickup.db", scale.samples),
            "what": "pickup, SQLite, across processes",
        }
    )
    figures.judge("pickup p99 on SQLite, ms", lite["p99 ms"], 60, at_most=True)
    with fresh(admin) as url:
        cost = add(engine.costs(url, scale.drain))
    figures.judge("WAL of a plain job after its enqueue, B", cost["WAL B/job"], 1000, at_most=True)
    first = 0.0
    for queued in scale.backlogs:
        with fresh(admin) as url:
            rate = float(add(engine.backlog(url, queued, scale.backlog_jobs))["jobs/s"])
        first = first or rate
        if queued > scale.backlogs[0] and first:
            figures.judge(f"rate with {queued:,} queued, of that with {scale.backlogs[0]:,}", rate / first,
                          0.8 if queued <= 1_000_000 else 0.7)  # fmt: skip
    with fresh(admin) as url:
        for row in engine.snapshot(url, scale.snapshot):
            add(row)
            if "ratio" in row:
                figures.judge("rate while a snapshot is held, of that without", row["ratio"], 0.5)
    with fresh(admin) as url:
        grown = add(engine.memory(url, *scale.memory))
    figures.judge("MB more after many jobs", grown["MB more"], 20, at_most=True)


def _judge(figures: Figures, names: Sequence[str]) -> None:
    for processes, wanted in ((1, 0.7), (2, 0.75)):
        what = drain_of(processes)
        figures.ratio(
            f"{what}, of the bare statement's rate on as many connections", (DEFAULTS, what), ("raw-sql", what), wanted
        )  # fmt: skip
    for shape, wanted in ((shapes.PIPELINE, 0.5), (shapes.STALE, 0.5), (shapes.MANY, 0.7)):
        figures.ratio(f"{shape}, to a drain", ("windlass", shape), ("windlass", shapes.PLAIN), wanted)
    for name, processes, wanted in TO_PEERS:
        what = drain_of(processes)
        figures.ratio(f"{what}, to {name}", (DEFAULTS, what), (name, what), wanted)
    for name, wanted in (("huey", 4.0), ("huey-quiet", 2.0), ("huey-fsync", 4.0)):
        figures.ratio(
            f"drain on SQLite, to {name}", ("windlass-sqlite", drain_of(1)), (name, drain_of(1)), wanted
        )
    many = ("windlass", "enqueue_many, 1000 a call")
    figures.ratio("enqueue_many, to pgqueuer in bulk", many, ("pgqueuer", "enqueue in bulk"), 2.0)
    fastest = figures.fastest(
        [(name, "enqueue one at a time") for name in names if name in ("pgqueuer", "procrastinate")]
    )
    together = ("windlass", "enqueue_async, 32 callers")
    figures.ratio("32 callers of enqueue_async, to the fastest Python peer", together, fastest, 3.0)


@contextmanager
def fresh(admin: str) -> Iterator[str]:
    """The URL of a new, migrated database."""
    with fresh_database(admin) as url:
        migrate(url)
        yield url
