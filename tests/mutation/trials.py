"""Chooses the tests for each mutant of the SQL, gives both to the workers, and keeps what they found."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.mutation.worker import PATIENCE, work
from tests.sql_guards import MIGRATION, Mutant

CHUNK = 25
GUARDS = "test_guard"
"""Part of the names of files whose tests were made for guards."""
SLOWEST = 4.0
"""Seconds; slower tests are left to ``./dev test``, unless they were made for guards: these are slow on a busy machine alone."""


@dataclasses.dataclass(slots=True)
class Result:
    """What became of a mutant; ``killer`` is the test that noticed."""

    mutant: Mutant
    killer: str | None
    why: str | None
    seconds: float
    tests: int

    def as_json(self) -> dict[str, Any]:
        guard = self.mutant
        return {
            "guard": guard.describe(),
            "dialect": guard.dialect,
            "verb": guard.verb,
            "kind": guard.kind,
            "line": guard.line,
            "text": guard.text,
            "put": guard.put,
            "belt": guard.belt,
            "killer": self.killer,
            "why": self.why,
            "seconds": round(self.seconds, 3),
            "tests": self.tests,
        }


class Pool:
    """Workers, fed one task at a time."""

    def __init__(self, jobs: int, tests: Sequence[str], folder: Path) -> None:
        context = multiprocessing.get_context("fork")
        self._folder = folder
        self._workers = {}
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            worker = context.Process(target=work, args=(theirs, tests, folder))
            worker.start()
            theirs.close()
            self._workers[ours] = worker
        answers = [self._receive(link) for link in self._workers]
        self.items: dict[str, list[str]] = answers[0]["items"]
        self.broken: list[str] = answers[0]["broken"]

    def run(self, tasks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Answers in the order they come; a task is asked for when a worker is free, so it may use earlier answers."""
        busy: set[Connection] = set()
        idle = list(self._workers)
        while True:
            while idle and (task := next(tasks, None)) is not None:
                idle[-1].send(task)
                busy.add(idle.pop())
            if not busy:
                return
            for link in wait(list(busy)):
                assert isinstance(link, Connection)
                busy.discard(link)
                idle.append(link)
                yield self._receive(link)

    def close(self) -> None:
        for link, worker in self._workers.items():
            with suppress(OSError):
                link.send(None)
            worker.join(10)
            worker.kill()  # if it is in the middle of a task: this run was interrupted

    def _receive(self, link: Connection) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = link.recv()
        except EOFError:
            log = self._folder / f"worker-{self._workers[link].pid}.log"
            raise SystemExit(f"a worker died; its last words:\n{log.read_text()[-3000:]}") from None
        return answer


@dataclasses.dataclass(slots=True)
class Known:
    """What earlier runs taught: which tests run which verbs, how long they take, and who killed what."""

    path: Path
    digest: str
    verbs: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    failing: dict[str, str] = dataclasses.field(default_factory=dict)
    killers: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, home: Path, digest: str) -> Known:
        path = home / ".pytest_cache" / "windlass-mutate-sql.json"
        known = cls(path, digest)
        with suppress(OSError, ValueError, KeyError):
            stored = json.loads(path.read_text())
            known.killers = stored["killers"]
            if stored["digest"] == digest:
                known.verbs, known.seconds, known.failing = (
                    stored["verbs"],
                    stored["seconds"],
                    stored["failing"],
                )
        return known

    def save(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "path"
        }
        self.path.write_text(json.dumps(fields))

    def measure(self, pool: Pool, dialects: Sequence[str]) -> None:
        """The first pass: every test once, without a mutant, noting verbs and times."""
        tasks: list[dict[str, Any]] = []
        for dialect in dialects:
            names = [i for i, known in pool.items.items() if dialect in known and i not in self.verbs]
            tasks += _without_mutant(dialect, names)
        progress = Progress("first pass: which test runs which statement", len(tasks))
        for answer in pool.run(iter(tasks)):
            for name, seconds, verbs, failure in answer["ran"]:
                self.verbs[name] = sorted({*self.verbs.get(name, []), *verbs})
                self.seconds[name] = seconds
                if failure:
                    self.failing[name] = failure
            if answer["killer"]:
                self.failing[answer["killer"]] = answer["why"]
            progress.step()
        progress.end()

    def tests_of(self, mutant: Mutant, items: dict[str, list[str]]) -> list[str]:
        """The tests that could notice, the likeliest first: who noticed before, who noticed the verb's other guards on
        either database, tests made for guards, the quickest."""
        verbs = {
            f"{mutant.dialect}/{verb}"
            # A fragment that no verb uses is used by code that drops old history.
            for verb in ((mutant.changed() or ["prune.page"]) if mutant.is_fragment else [mutant.verb])
        }
        names = [
            name
            for name in items
            if name not in self.failing
            and (self.seconds.get(name, 0.0) <= SLOWEST or GUARDS in name)
            and (
                mutant.dialect in items[name]
                if mutant.verb == MIGRATION
                else not verbs.isdisjoint(self.verbs.get(name, ()))
            )
        ]
        neighbours = Counter(
            _plain(killer) for key, killer in self.killers.items() if key.split("/")[1] == mutant.verb
        )
        before = self.killers.get(mutant.key)

        def likelihood(name: str) -> tuple[bool, int, bool, float]:
            return (
                name != before,
                -neighbours[_plain(name)],
                GUARDS not in name,
                self.seconds.get(name, 0.0),
            )

        return sorted(names, key=likelihood)


def _plain(name: str) -> str:
    """A test's name without the database it runs on: what notices on one notices on the other."""
    return re.sub(r"(?<=[\[-])(?:sqlite|pg[\w]*)(?=[\]-])", "*", name)


class Progress:
    """One line that says how far it is and how long it will take."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done, self._note = what, total, 0, ""
        self._began = self._said = time.monotonic()

    def step(self, note: str = "") -> None:
        self._done += 1
        now = time.monotonic()
        is_terminal = sys.stderr.isatty()
        if now - self._said < (0.2 if is_terminal else 10) and self._done < self._total:
            return
        self._said = now
        left = (now - self._began) / self._done * (self._total - self._done)
        line = f"mutate-sql: {self._what}: {self._done}/{self._total}{note}, {left:.0f} s left"
        print(
            f"\r\033[K{line}" if is_terminal else line,
            end="" if is_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    def say(self, news: str) -> None:
        print(f"\r\033[K{news}" if sys.stderr.isatty() else news, file=sys.stderr, flush=True)

    def end(self) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


def _without_mutant(dialect: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Tasks that run these tests on unchanged SQL."""
    for n in range(0, len(names), CHUNK):
        yield {"id": 0, "dialect": dialect, "mutant": None, "tests": names[n : n + CHUNK], "limits": {}}


def try_all(mutants: Sequence[Mutant], pool: Pool, known: Known, most: int | None = None) -> list[Result]:
    """Try every mutant until a test fails."""
    results: list[Result] = []

    def tasks() -> Iterator[dict[str, Any]]:
        for number, mutant in enumerate(mutants):
            tests = known.tests_of(mutant, pool.items)[:most]
            limits = {name: max(PATIENCE, 10 * known.seconds.get(name, 0.0)) for name in tests}
            yield {
                "id": number,
                "dialect": mutant.dialect,
                "mutant": mutant,
                "tests": tests,
                "limits": limits,
            }

    progress = Progress("mutants", len(mutants))
    for answer in pool.run(tasks()):
        mutant = mutants[answer["task"]]
        if answer["killer"] in known.seconds:
            known.killers[mutant.key] = answer["killer"]
        ran = len(answer["ran"]) + (answer["killer"] is not None)
        results.append(Result(mutant, answer["killer"], answer["why"], answer["seconds"], ran))
        if answer["killer"] is None:
            progress.say(f"SURVIVES {ran} tests: {mutant.describe()}")
        progress.step(f", {sum(1 for result in results if result.killer is None)} survive")
    progress.end()
    return sorted(results, key=lambda result: mutants.index(result.mutant))


def doubt(results: Sequence[Result], pool: Pool) -> set[str]:
    """Killers that also fail without a mutant: what they killed was not killed."""
    names = defaultdict(set)
    for result in results:
        if result.killer in pool.items:
            names[result.mutant.dialect].add(result.killer)
    tasks: list[dict[str, Any]] = []
    for dialect, killers in names.items():
        tasks += _without_mutant(dialect, sorted(killers))
    progress = Progress("the tests that noticed, once more without a mutant", len(tasks))
    doubtful: set[str] = set()
    for answer in pool.run(iter(tasks)):
        doubtful |= {name for name, _, _, failure in answer["ran"] if failure}
        doubtful |= {answer["killer"]} - {None}
        progress.step()
    progress.end()
    return doubtful
