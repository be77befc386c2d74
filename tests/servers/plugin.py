"""Fixtures that hand out real servers, and the lines of the run that say which ones were used."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.servers import choice, postgres, valkey
from windlass import processes as process
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store

_USED = pytest.StashKey[dict[str, set[str]]]()


class FreshPostgres(Protocol):
    """Makes databases for one test: on the newest server, or on the one with the given id; ``empty`` has no tables."""

    def __call__(self, server: str | None = None, *, empty: bool = False) -> str: ...


@pytest.fixture(scope="session")
def pg_servers(pytestconfig: pytest.Config) -> Iterator[postgres.PostgresServers]:
    """Every PostgreSQL server this process has started."""
    servers = postgres.PostgresServers()
    yield servers
    _note(pytestconfig, "PostgreSQL", servers.used())
    servers.close()


@pytest.fixture
def fresh_postgres(pg_servers: postgres.PostgresServers) -> Iterator[FreshPostgres]:
    """A factory of database URLs; the databases are dropped after the test."""
    made: list[tuple[postgres.Databases, str]] = []

    def make(server: str | None = None, *, empty: bool = False) -> str:
        databases = pg_servers.get(server)
        url = databases.empty() if empty else databases.fresh()
        made.append((databases, url))
        return url

    yield make
    for databases, url in made:
        databases.drop(url)


@pytest.fixture
def postgres_dsn(fresh_postgres: FreshPostgres) -> str:
    """A fresh, migrated database on the newest PostgreSQL found."""
    return fresh_postgres()


@pytest.fixture
def postgres_empty_dsn(fresh_postgres: FreshPostgres) -> str:
    """A database without tables on the newest PostgreSQL found."""
    return fresh_postgres(empty=True)


@pytest.fixture
def postgres_dsn_every(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres) -> str:
    """A fresh, migrated database; the test runs once on each PostgreSQL version found."""
    return fresh_postgres(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres_dsn_every" in metafunc.fixturenames:
        metafunc.parametrize("postgres_dsn_every", postgres.ids(), indirect=True)


@pytest.fixture
def own_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """A factory of private servers, for tests that crash or reconfigure one: ``own_postgres(durable=True)``.

    Always from binaries, the newest found. The server is empty: migrate a database of it yourself.
    """
    servers: list[PostgresServer] = []

    def start(*, durable: bool = True, settings: dict[str, str] | None = None) -> PostgresServer:
        servers.append(PostgresServer(postgres.own_binaries(), durable=durable, settings=settings))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def valkey_server(pytestconfig: pytest.Config) -> Iterator[valkey.Valkey]:
    """The Valkey server of this process."""
    server = valkey.Valkey()
    yield server
    _note(pytestconfig, "Valkey/Redis", server.used())
    server.close()


@pytest.fixture
def valkey_url(valkey_server: valkey.Valkey) -> str:
    """The URL of a Valkey or Redis server. It is empty, unless WINDLASS_TEST_REDIS_URL names one: use unique keys."""
    return valkey_server.url()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables of the current release, to be copied: seven times faster than to make them."""
    path = tmp_path_factory.mktemp("template") / "windlass.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def fresh_sqlite(sqlite_template: Path, sqlite_path: Path) -> Callable[[], str]:
    """The URL of the test's SQLite database, with its tables; the file is there once this is called."""

    def make() -> str:
        shutil.copyfile(sqlite_template, sqlite_path)
        return f"sqlite:///{sqlite_path}"

    return make


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """Where the test may put its SQLite database; the file does not exist yet."""
    return tmp_path / "windlass.db"


# --- what the run says ---------------------------------------------------------------------------------------------


def _note(config: pytest.Config, kind: str, used: list[str]) -> None:
    config.stash.setdefault(_USED, {}).setdefault(kind, set()).update(used)


def _found() -> dict[str, list[str]]:
    valkey_source = valkey.found()
    return {
        "PostgreSQL": [source.label for source in postgres.found()],
        "Valkey/Redis": [valkey_source.label] if valkey_source else [],
    }


def pytest_report_header() -> list[str]:
    found = "; ".join(f"{kind} {', '.join(labels) or 'NONE'}" for kind, labels in _found().items())
    return [f"servers found: {found}"]


def pytest_configure(config: pytest.Config) -> None:
    """A worker of pytest-xdist would finish its test before it noticed that pytest was killed, servers and all.

    A shell without job control starts what it puts in the background with SIGINT ignored, every program under test would inherit that,
    and a test that sends one its Ctrl-C would wait in vain.
    """
    if hasattr(config, "workerinput"):
        process.die_with_parent()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its list to the process that prints."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        used = session.config.stash.get(_USED, {})
        output["windlass_servers"] = {kind: sorted(labels) for kind, labels in used.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for kind, labels in getattr(node, "workeroutput", {}).get("windlass_servers", {}).items():
        _note(node.config, kind, labels)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    used = {kind: sorted(labels) for kind, labels in config.stash.get(_USED, {}).items() if labels}
    said = "; ".join(f"{kind} {', '.join(labels)}" for kind, labels in used.items())
    terminalreporter.section("servers")
    terminalreporter.write_line(f"servers used: {said or 'none were asked for'}")
    for kind, labels in _found().items():
        if not labels:
            effect = "FAIL" if choice.is_required() else "are SKIPPED"
            terminalreporter.write_line(
                f"!! NO {kind.upper()} SERVER: tests that need one {effect} !!", red=True, bold=True
            )
