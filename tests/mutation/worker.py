"""Runs tests under one mutant of the SQL, in a forked child of a process that has collected them once."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest

from tests.servers import postgres
from tests.sql_guards import MIGRATION, Mutant
from windlass import processes as process
from windlass.clock import ManualClock
from windlass.examples.embedded.postgres import PostgresServer
from windlass.store.postgres import partitions
from windlass.store.postgres import transaction as pg_store
from windlass.store.schema import migrations, statements
from windlass.store.sqlite import database as sqlite_store

PATIENCE = 30.0
"""Seconds that a test may take under a mutant, at least (a busy machine kills no mutant); ten times its own time otherwise."""


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
