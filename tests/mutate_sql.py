"""Deletes each guard from the store's SQL in turn and sees that a test notices: ``./dev mutate-sql``.

A survivor is a guard that no test misses. Either a test is missing, or the guard serves nothing, or it is a belt: it is
there for the planner or the grammar, or behind another guard, and its line says so (``-- belt: <reason>``).

How it is fast: one process a core imports everything, collects the tests and starts a PostgreSQL server once; a mutant is
a forked child of it that puts the mutated text in place of the compiled statement and runs only the tests that run that
statement (known from a first pass), the ones most likely to fail first, until one fails. It works on a copy of the
tree, so that editing may go on meanwhile.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import hashlib
import json
import multiprocessing
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psycopg  # noqa: E402
import pytest  # noqa: E402

from tests.servers import postgres  # noqa: E402
from tests.sql_guards import DIALECTS, MIGRATION, PACKAGE, Mutant, find  # noqa: E402
from windlass import processes as process  # noqa: E402
from windlass.clock import ManualClock  # noqa: E402
from windlass.examples.embedded.postgres import PostgresServer  # noqa: E402
from windlass.store.postgres import partitions  # noqa: E402
from windlass.store.postgres import transaction as pg_store  # noqa: E402
from windlass.store.schema import migrations, statements  # noqa: E402
from windlass.store.sqlite import database as sqlite_store  # noqa: E402

HOME = "WINDLASS_MUTATE_HOME"  # set in the copy: where the tree it was made of lies
TESTS = (
    "tests/conformance",
    *(
        f"tests/{feature}"
        for feature in ("dependencies", "keys", "limits", "principals", "rules", "schedules")
    ),
    "tests/interleavings",
    "tests/plans/test_guard_plans.py",
)
CHUNK = 25
SLOWEST = 4.0  # tests that take longer are left to ./dev test
PATIENCE = 30.0  # seconds a test may take under a mutant, at least (a busy machine is no killer); ten times its own time otherwise


# --- one mutant, in a child of its own -------------------------------------------------------------------------------


class _Recording(dict[str, Any]):
    """Statements that remember which of them were asked for."""

    def __init__(self, statements: Mapping[str, Any], dialect: str, asked: set[str]) -> None:
        super().__init__(statements)
        self._dialect, self._asked = dialect, asked

    def __getitem__(self, verb: str) -> Any:
        self._asked.add(f"{self._dialect}/{verb}")
        return super().__getitem__(verb)


def record_verbs() -> set[str]:
    """From now on, the verbs that run in this process, as ``dialect/verb``."""
    asked: set[str] = set()
    sqlite_store.STATEMENTS = _Recording(sqlite_store.STATEMENTS, "sqlite", asked)
    pg_store.STATEMENTS = _Recording(pg_store.STATEMENTS, "postgres", asked)
    return asked


def put_in_place(mutant: Mutant) -> None:
    """Make this process run the mutated text."""
    text = mutant.applied()
    if mutant.verb == MIGRATION:
        original, name = migrations.available, Path(mutant.file).stem.partition("_")[2]

        def available(dialect: str) -> tuple[migrations.Migration, ...]:
            steps = original(dialect)
            if dialect != mutant.dialect:
                return steps
            return tuple(dataclasses.replace(step, sql=text) if step.name == name else step for step in steps)

        for module in list(sys.modules.values()):
            if getattr(module, "available", None) is original:
                module.available = available  # type: ignore[attr-defined]
        return
    loaded = statements.load(mutant.dialect)
    assert isinstance(loaded, dict)
    mutated = mutant.sources()
    statements.sources = lambda dialect: (
        mutated if dialect == mutant.dialect else {}
    )  # for texts that are made in code
    for name, verb in mutant.changed().items():
        loaded[name] = verb
        if mutant.dialect == "sqlite":
            sqlite_store.STATEMENTS[name] = verb
        else:
            pg_store.STATEMENTS[name] = [(item.pyformat().encode(), item.names) for item in verb.statements]


class _SharedServers(postgres.PostgresServers):
    """The worker's running server, seen from a child: connections and databases of its own."""

    source: postgres.Source
    template: str | None

    def get(self, server: str | None = None) -> postgres.Databases:
        if "shared" not in self._open:
            databases = postgres.Databases(self.source, prepare)
            databases._template = self.template
            self._open["shared"] = databases
        return self._open["shared"]


def prepare(url: str) -> None:
    """Fill the template, with the history partitions that every test's clock asks for (half of a test's time)."""
    postgres.prepare(url)
    with psycopg.connect(url, autocommit=True) as connection:
        partitions.ensure(connection, around=ManualClock().now().date())


class Worker:
    """A pytest plugin that collects once and then runs tests as it is told, each task in a forked child."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._items: dict[str, pytest.Item] = {}
        self._server: PostgresServer | None = None
        self._template: tuple[postgres.Source, str] | None = None
        self._broken: list[str] = []
        self._failures: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        newest = postgres.ids()[0]
        other = [name for name in postgres.ids() if name != newest]
        items[:] = [item for item in items if not _parameters(item) & set(other)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failures.append(_last_line(report.longreprtext))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        session.testsfailed = 0
        self._link.send(
            {"items": {i: _dialects(item) for i, item in self._items.items()}, "broken": self._broken}
        )
        while (task := self._link.recv()) is not None:
            self._link.send(self._fork(task))
        if self._server is not None:
            self._server.stop()
        return True

    def _fork(self, task: dict[str, Any]) -> dict[str, Any]:
        """Run a task in a child and watch it: a test that hangs is a test that noticed."""
        if task["dialect"] == "postgres":
            self._start_server()
        reader, writer = os.pipe()
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._in_child(task, writer)
        os.close(writer)
        answer: dict[str, Any] = {"task": task["id"], "ran": [], "killer": None, "why": None}
        news = _News(reader)
        while (item := news.next(task["limits"].get(news.test, 6 * PATIENCE))) is not None:
            if "ran" in item:
                answer["ran"].append(item["ran"])
            answer |= {name: item[name] for name in ("killer", "why") if name in item}
        os.close(reader)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if answer["killer"] is None and len(answer["ran"]) < len(task["tests"]):
            why = "it hung" if news.is_late else f"the process ended with status {status}"
            answer |= {"killer": news.test or "the set-up", "why": why}
        return answer | {"seconds": time.monotonic() - began}

    def _in_child(self, task: dict[str, Any], writer: int) -> NoReturn:
        def tell(**news: Any) -> None:
            os.write(writer, json.dumps(news).encode() + b"\n")

        code = 1
        try:
            os.setpgid(0, 0)
            process.die_with_parent()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(nowhere, standard)
            asked = record_verbs() if task["mutant"] is None else set()
            if task["dialect"] == "postgres" and self._template:
                is_migration = task["mutant"] is not None and task["mutant"].verb == MIGRATION
                _SharedServers.source, name = self._template
                _SharedServers.template = None if is_migration else name
                postgres.PostgresServers = _SharedServers  # type: ignore[misc]
            if task["mutant"] is not None:
                put_in_place(task["mutant"])
            tests = [self._items[name] for name in task["tests"] if name in self._items]
            for item, following in zip(tests, [*tests[1:], None], strict=True):
                self._failures.clear()
                asked.clear()
                began = time.monotonic()
                tell(start=item.nodeid)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                failure = self._failures[0] if self._failures else None
                if failure is not None and task["mutant"] is not None:
                    tell(killer=item.nodeid, why=failure)
                    break
                tell(ran=[item.nodeid, time.monotonic() - began, sorted(asked), failure])
            code = 0
        except BaseException as error:  # noqa: BLE001  whatever it was, it must end here
            tell(killer="the set-up", why=repr(error))
        finally:
            os._exit(code)

    def _start_server(self) -> None:
        if self._template is not None:
            return
        source = postgres.found()[0]
        if source.binaries:
            settings = {"statement_timeout": "30s", "autovacuum": "off"}
            self._server = PostgresServer(source.binaries, settings=settings)
            self._server.start()
            source = postgres.Source(source.id, source.label, dsn=self._server.dsn())
        databases = postgres.Databases(source, prepare)
        databases.drop(databases.fresh())
        databases._connection.close()  # each child has its own; one that a child inherits would be closed twice
        assert databases._template is not None
        self._template = source, databases._template


def _parameters(item: pytest.Item) -> set[str]:
    callspec = getattr(item, "callspec", None)
    return {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()


def _dialects(item: pytest.Item) -> list[str]:
    """The dialects a test may concern, by its parameters and fixtures."""
    if "sqlite" in _parameters(item):
        return ["sqlite"]
    if _parameters(item) & set(postgres.ids()):
        return ["postgres"]
    names = set(getattr(item, "fixturenames", ()))
    found = {"postgres"} if any("postgres" in name or name == "pg_servers" for name in names) else set()
    return sorted(found | ({"sqlite"} if "sqlite_path" in names or not found else set()))


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("E ")] or text.splitlines() or [""]
    return lines[0].removeprefix("E ").strip()[:200]


class _News:
    """What a child says, one JSON text a line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: list[bytes] = [b""]
        self.test = ""
        self.is_late = False

    def next(self, patience: float) -> dict[str, Any] | None:
        """The next news; None at the end, or when nothing came for so many seconds."""
        while len(self._lines) < 2:
            if not select.select([self._descriptor], [], [], patience)[0]:
                self.is_late = True
                return None
            data = os.read(self._descriptor, 65536)
            if not data:
                return None
            self._lines = (self._lines[0] + data).split(b"\n")
        item: dict[str, Any] = json.loads(self._lines.pop(0))
        self.test = item.get("start", self.test)
        return item


def work(link: Connection, tests: Sequence[str], folder: Path) -> None:
    """A worker's life: pytest, with the plugin above in the place of its loop."""
    process.die_with_parent()
    log = os.open(folder / f"worker-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    options = ["-q", "-s", "-p", "no:cacheprovider", "--continue-on-collection-errors", "-m", "not slow"]
    base = folder / f"worker-{os.getpid()}"
    pytest.main([*options, f"--basetemp={base}", *tests], plugins=[Worker(link)])


# --- who tries which mutant with which tests -------------------------------------------------------------------------


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
        chunks: list[dict[str, Any]] = []
        for dialect in dialects:
            names = [i for i, known in pool.items.items() if dialect in known and i not in self.verbs]
            chunks += [
                {"id": 0, "dialect": dialect, "mutant": None, "tests": names[n : n + CHUNK], "limits": {}}
                for n in range(0, len(names), CHUNK)
            ]
        progress = Progress("first pass: which test runs which statement", len(chunks))
        for answer in pool.run(iter(chunks)):
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
            and self.seconds.get(name, 0.0) <= SLOWEST
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
                "test_guard" not in name,
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
        chosen = sorted(killers)
        tasks += [
            {"id": 0, "dialect": dialect, "mutant": None, "tests": chosen[n : n + CHUNK], "limits": {}}
            for n in range(0, len(chosen), CHUNK)
        ]
    progress = Progress("the tests that noticed, once more without a mutant", len(tasks))
    doubtful: set[str] = set()
    for answer in pool.run(iter(tasks)):
        doubtful |= {name for name, _, _, failure in answer["ran"] if failure}
        doubtful |= {answer["killer"]} - {None}
        progress.step()
    progress.end()
    return doubtful


# --- the command -----------------------------------------------------------------------------------------------------


def control(dialect: str) -> Mutant:
    """A mutant that changes nothing; if anything kills it, the numbers of this run mean nothing."""
    guard = next(mutant for mutant in find(dialect) if mutant.kind == "guard" and mutant.verb == "start")
    return dataclasses.replace(guard, put=f"({guard.text})", kind="control", belt=None)


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants this run is about, belts included."""
    dialects = [options.dialect] if options.dialect else DIALECTS
    mutants = [
        mutant
        for dialect in dialects
        for mutant in find(dialect)
        if any(fnmatch.fnmatch(mutant.verb, pattern) for pattern in options.verb or ["*"])
        and any(fnmatch.fnmatch(mutant.kind, pattern) for pattern in options.kind or ["*"])
        and (options.line is None or mutant.line == options.line)
    ]
    if options.again:
        survivors = {tuple(item) for item in _survivors(options.again)}
        mutants = [
            mutant
            for mutant in mutants
            if (mutant.dialect, mutant.verb, mutant.text, mutant.put) in survivors
        ]
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    if options.control:
        mutants += [control(dialect) for dialect in dialects]
    return mutants


def _survivors(report: Path) -> Iterator[tuple[str, str, str, str]]:
    for item in json.loads(report.read_text())["results"]:
        if item["killer"] is None:
            yield item["dialect"], item["verb"], item["text"], item["put"]


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev mutate-sql", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dialect", choices=DIALECTS, help="only this one")
    parser.add_argument(
        "--verb", action="append", metavar="PATTERN", help='only these verbs, as in "record.*"'
    )
    parser.add_argument("--kind", action="append", metavar="PATTERN", help='only these kinds, as in "*lock*"')
    parser.add_argument("--line", type=int, help="only guards that begin on this line")
    parser.add_argument("--list", action="store_true", help="show the mutants and stop")
    parser.add_argument(
        "--belts", action="store_true", help="try only belts: one that is killed needs no excuse"
    )
    parser.add_argument(
        "--control", action="store_true", help="add a mutant that changes nothing and must survive"
    )
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only the survivors of an earlier --json report"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--most", type=int, metavar="N", help="give a mutant up after N tests: a quick look, no proof"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: cores)"
    )
    parser.add_argument(
        "--tests", action="extend", nargs="+", metavar="PATH", help=f"default: {' '.join(TESTS)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there too")
    return parser.parse_args(words)


def digest() -> str:
    """Changes when anything changes that the first pass depends on."""
    found = hashlib.sha256()
    for folder in (PACKAGE, ROOT / "tests"):
        for path in sorted(folder.rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def go_to_a_copy() -> NoReturn:
    """Copy the tree and begin again there, as the same process."""
    folder = Path(
        tempfile.mkdtemp(prefix="windlass-mutate-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    )
    for name in ("src", "tests", "chaos", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    environment = {**os.environ, HOME: str(ROOT), "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    script = str(folder / "tests" / "mutate_sql.py")
    os.execve(sys.executable, [sys.executable, script, *sys.argv[1:]], environment)


def main() -> int:
    options = arguments()
    mutants = chosen(options)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.kind:12} {mutant.describe()}{f'  (belt: {mutant.belt})' if mutant.belt else ''}")
        print(summary(mutants))
        return 0
    if HOME not in os.environ:
        if options.json:
            sys.argv += ["--json", str(options.json.resolve())]
        go_to_a_copy()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy goes away
    try:
        os.chdir(ROOT)
        return run(options, mutants)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)


def run(options: argparse.Namespace, mutants: Sequence[Mutant]) -> int:
    began = time.monotonic()
    belts = [mutant for mutant in mutants if mutant.belt]
    tried = [
        m for m in (belts if options.belts else mutants) if bool(m.belt) == options.belts and m.text != m.put
    ]
    tests = options.tests or [name for name in TESTS if (ROOT / name).exists()]
    known = Known.load(Path(os.environ[HOME]), digest())
    pool = Pool(max(1, min(options.jobs, len(tried))), tests, ROOT)
    try:
        known.measure(pool, sorted({mutant.dialect for mutant in tried}))
        if not options.tests:
            known.save()
        results = try_all(tried, pool, known, options.most)
        doubtful = doubt(results, pool)
        known.killers = {key: name for key, name in known.killers.items() if name not in doubtful}
        if not options.tests:
            known.save()
    finally:
        pool.close()
    for result in results:
        if result.killer in doubtful:
            result.killer, result.why = None, f"{result.killer} fails without a mutant too"
    survivors = [result for result in results if result.killer is None]
    seconds = time.monotonic() - began
    report(options, mutants, results, known, pool, seconds)
    if options.json:
        text = {"seconds": seconds, "results": [result.as_json() for result in results]}
        options.json.write_text(json.dumps(text, indent=1))
    return 1 if bool(survivors) != options.belts else 0


def report(
    options: argparse.Namespace,
    mutants: Sequence[Mutant],
    results: Sequence[Result],
    known: Known,
    pool: Pool,
    seconds: float,
) -> None:
    for name in pool.broken:
        print(f"LEFT OUT, it cannot be imported: {name}")
    for name, why in known.failing.items():
        if name in pool.items:
            print(f"LEFT OUT, it fails without a mutant: {name}: {why}")
    if options.belts:
        for result in results:
            verdict = f"KILLED by {result.killer} ({result.why})" if result.killer else "not observed"
            print(f"belt: {result.mutant.describe()}\n      {result.mutant.belt}\n      {verdict}")
    else:
        for mutant in mutants:
            if mutant.belt:
                print(f"belt: {mutant.describe()}  ({mutant.belt})")
        for result in results:
            if result.killer is None:
                note = f"  ({result.why})" if result.why else ""
                print(f"SURVIVES {result.tests} tests: {result.mutant.describe()}{note}")
    print(summary(mutants))
    for dialect in DIALECTS:
        own = [result for result in results if result.mutant.dialect == dialect]
        killed = sum(1 for result in own if result.killer)
        if own:
            print(f"{dialect}: {len(own)} tried, {killed} killed, {len(own) - killed} survive")
    print(f"{seconds:.0f} s")


def summary(mutants: Sequence[Mutant]) -> str:
    lines = []
    for dialect in DIALECTS:
        own = [mutant for mutant in mutants if mutant.dialect == dialect]
        kinds = Counter(mutant.kind for mutant in own)
        listed = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        lines.append(
            f"{dialect}: {len(own)} mutants ({listed}), {sum(1 for m in own if m.belt)} of them belts"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
