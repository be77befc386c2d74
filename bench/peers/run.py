"""Drives the peers: a fresh store for each measurement, the scripts as processes, their answers as results."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import results
from bench.peers.catalogue import Database, Definition, look_up
from bench.peers.databases import fresh_database, fresh_file, settle
from bench.peers.install import HOME, NotAvailableError, install
from bench.peers.process import Script, ScriptError, await_answers
from bench.peers.results import Result
from bench.report import say

SLOT = 16  # bytes of each worker on the board
BATCH = 1000  # jobs per bulk call
WARM_UP = 5  # jobs before the first sample of a latency
SETTLE_SECONDS = 1.0  # from the worker's being up to the first job of a latency: it has found nothing yet


@dataclass(frozen=True)
class Peer:
    """A peer that can be measured.

    ``place`` is the URL of a PostgreSQL server's database (the role needs CREATEDB) or a folder, as ``database`` says.
    Nothing here raises for a peer's mistake: the result says what is wrong, and the run goes on.
    """

    definition: Definition
    command: tuple[str, ...]
    folder: Path
    timeout: float = 600.0

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def title(self) -> str:
        """Name and version, for tables."""
        return f"{self.name} {self.definition.version}"

    @property
    def database(self) -> Database:
        return self.definition.database

    def measure_drain(self, place: str | Path, jobs: int, processes: int = 1) -> Result:
        """Run queued no-op jobs until none is left: from the first start of a handler to the store being empty."""
        _check_positive(jobs=jobs, processes=processes)

        def drain(store: str) -> Result:
            filled = results.enqueued(self._ask("fill", store, jobs=jobs), jobs)
            if "wrong" in filled:
                return results.failed(filled["wrong"])
            if self.database == "postgresql":
                settle(store)
            return results.drained(self._drain(store, jobs, processes), jobs)

        return self._measure("drain", place, drain)

    def measure_enqueue(self, place: str | Path, seconds: float = 5.0) -> Result:
        """Enqueue one job after the other for some seconds, over one connection."""
        _check_positive(seconds=seconds)
        return self._measure(
            "enqueue", place, lambda store: results.enqueued(self._ask("enqueue_one", store, seconds=seconds))
        )

    def measure_bulk(self, place: str | Path, jobs: int) -> Result:
        """Enqueue jobs, a thousand per call, by the fastest way the peer has."""
        _check_positive(jobs=jobs)
        return self._measure(
            "bulk", place, lambda store: results.enqueued(self._ask("enqueue_bulk", store, jobs=jobs), jobs)
        )

    def measure_latency(
        self,
        place: str | Path,
        samples: int = 200,
        interval: float = 0.05,
        *,
        is_random: bool = False,
        rest: float = 0.0,
        processes: int = 1,
    ) -> Result:
        """One job every so often to workers in other processes: milliseconds until its handler starts. ``is_random``: the intervals are those
        of independent callers, the same for each peer. ``rest``: each handler waits so many seconds, so that the workers are not idle."""
        _check_positive(samples=samples, interval=interval, processes=processes)
        jobs = WARM_UP + samples

        def wait(store: str) -> Result:
            with self._board() as board, ExitStack() as started:
                workers = [
                    started.enter_context(
                        self._start(
                            "latency",
                            store,
                            jobs=jobs,
                            board=str(board),
                            rest=rest,
                            process=n,
                            processes=processes,
                        )
                    )
                    for n in range(processes)
                ]
                for number, worker in enumerate(workers):
                    _await_worker(worker, board, number)
                time.sleep(SETTLE_SECONDS)
                with self._start(
                    "trickle", store, jobs=jobs, interval=interval, is_random=is_random
                ) as producer:
                    *heard, sent = await_answers([*workers, producer], self.timeout)
            return results.waited(sent["returns"], heard, warm_up=WARM_UP)

        return self._measure("latency", place, wait)

    def measure_idle(self, place: str | Path) -> Result:
        """The resident megabytes of a worker that has had no job for two seconds, with the few of its script."""

        def idle(store: str) -> Result:
            with self._board() as board, self._start("latency", store, jobs=1, board=str(board)) as worker:
                _await_worker(worker, board, 0)
                time.sleep(2 * SETTLE_SECONDS)
                return {"jobs": 0, "rate": 0.0, "mb": worker.resident_mb()}

        return self._measure("idle", place, idle)

    # --- how it is done --------------------------------------------------------------------------------------------

    def _measure(self, what: str, place: str | Path, measurement: Callable[[str], Result]) -> Result:
        fresh = fresh_database(str(place)) if self.database == "postgresql" else fresh_file(place)
        with fresh as store:
            try:
                self._ask("setup", store)
                result = measurement(store)
            except ScriptError as error:
                result = results.failed(str(error))
            except KeyError as error:
                result = results.failed(f"an answer of its script has no {error}")
        return {"peer": self.title, "what": what, **result}

    @contextmanager
    def _board(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="windlass-peers-") as folder:
            board = Path(folder) / "board"
            board.touch()
            yield board

    def _start(self, verb: str, store: str, **details: Any) -> Script:
        order = {"store": store, "batch": BATCH, "options": dict(self.definition.options), **details}
        return Script([*self.command, verb], order, self.folder)

    def _ask(self, verb: str, store: str, **details: Any) -> results.Answer:
        with self._start(verb, store, **details) as script:
            return await_answers([script], self.timeout)[0]

    def _drain(self, store: str, jobs: int, processes: int) -> list[results.Answer]:
        with self._board() as board, ExitStack() as started:
            scripts = [
                started.enter_context(
                    self._start("drain", store, jobs=jobs, board=str(board), process=n, processes=processes)
                )
                for n in range(processes)
            ]
            return await_answers(scripts, self.timeout)


@dataclass(frozen=True)
class Prepared:
    """The peers that can be measured, and why the others cannot."""

    peers: list[Peer]
    missing: dict[str, str]


def prepare(names: Iterable[str], home: Path = HOME) -> Prepared:
    """Install what is not installed yet; a peer that cannot be had is named with its reason, and the rest goes on."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    for definition in look_up(names):
        try:
            command = install(definition, home)
        except NotAvailableError as error:
            missing[definition.name] = f"not available: {error}"
            say(f"peers: {definition.name}: {missing[definition.name]}")
        else:
            peers.append(Peer(definition, tuple(command), home / definition.environment))
    return Prepared(peers, missing)


def available(names: Iterable[str], home: Path = HOME) -> list[Peer]:
    """The peers of these names that can be measured here, installed; ValueError for a name that is not there."""
    return prepare(names, home).peers


def _await_worker(worker: Script, board: Path, number: int, seconds: float = 60.0) -> None:
    """Return when this worker has written to the board, which it does when its worker starts; ScriptError if it never does."""
    deadline = time.monotonic() + seconds
    while not board.read_bytes()[number * SLOT : (number + 1) * SLOT].strip(b"\0"):
        if worker.has_ended() or time.monotonic() > deadline:
            await_answers([worker], 0.0)
            raise ScriptError("the worker ended before its first job")
        time.sleep(0.01)


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise ValueError(f"{name} must be more than 0, not {number}")
