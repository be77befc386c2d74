"""Which experiments there are, and how one is run on one database."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import psycopg

from chaos.bed import Bed
from chaos.findings import Findings
from chaos.profile import APP, HOSTILE, OWNER, PLAIN, Roles
from windlass.examples.embedded.binaries import find_postgres
from windlass.examples.embedded.postgres import PostgresServer
from windlass.store.migrate import migrate

NAMES = (
    "kill",
    "storm",
    "deaths",
    "poison",
    "cut",
    "freeze",
    "block",
    "term",
    "restart",
    "bad",
    "children",
    "pipeline",
    "chunks",
    "cancel",
    "cron",
)


class Experiment(Protocol):
    """What a module of ``chaos.experiments`` offers."""

    STORES: tuple[str, ...]
    LONG: Any
    SHORT: Any

    def run(self, bed: Bed, plan: Any, findings: Findings) -> None: ...


def experiment(name: str) -> Experiment:
    return cast(Experiment, import_module(f"chaos.experiments.{name}"))


def conduct(name: str, bed: Bed, *, short: bool) -> Findings:
    """Run an experiment in a bed; whatever goes wrong in it is a finding."""
    made = experiment(name)
    findings = Findings(name, bed.dialect)
    findings.note("seed", bed.seed)
    try:
        made.run(bed, made.SHORT if short else made.LONG, findings)
    except Exception as error:  # noqa: BLE001  whatever it is, the others go on and this one has failed
        traceback.print_exc()
        findings.none("experiment broken off", [f"{type(error).__name__}: {error}"])
    return findings


@contextmanager
def database(dialect: str, folder: Path, profile: str = PLAIN) -> Iterator[tuple[str, PostgresServer | None]]:
    """A fresh database; a PostgreSQL of our own, which keeps what it committed when it is stopped hard."""
    if dialect == "sqlite":
        yield f"sqlite:///{folder / 'windlass.db'}", None
        return
    with PostgresServer(find_postgres()[0], durable=True) as server:
        yield migrated(server, profile), server


def migrated(server: PostgresServer, profile: str) -> str:
    """The URL, for an application, of a server's own database with the tables of the current release."""
    url = server.dsn()
    if profile != HOSTILE:
        migrate(url)
        return url
    with psycopg.connect(url, autocommit=True) as admin:
        roles = Roles(admin)
        roles.let_in(url, "postgres")
    migrate(roles.url(url, OWNER))
    roles.grant(url)
    return roles.url(url, APP)
