"""Applies the numbered files of a dialect, in order, one migrator at a time.

Migrations are forward-only and additive first: the previous release still works on the new schema. Each file runs in one
transaction together with its entry in the ``migration`` table, with a lock time-out, so that a long transaction of another
session delays the migration instead of every session behind it. A file that begins with ``-- windlass: no transaction`` (for
``CREATE INDEX CONCURRENTLY``) runs statement by statement and must be safe to repeat.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from windlass.errors import SchemaError
from windlass.urls import shown_url

PATIENCE = 120.0
CONNECT_TIMEOUT = 10.0
NO_TRANSACTION = "-- windlass: no transaction"
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        return not self.sql.startswith(NO_TRANSACTION)


@dataclass(frozen=True, slots=True)
class Status:
    """The versions a database has and those it lacks, and how many partitions its history has, if that was asked for."""

    applied: Sequence[tuple[int, str]]
    pending: Sequence[Migration]
    partitions: int = 0

    @property
    def version(self) -> int:
        return self.applied[-1][0] if self.applied else 0


@cache
def available(dialect: str) -> tuple[Migration, ...]:
    """The migrations this release has, in order. A number may be missing: the change that has it is not there yet."""
    folder = files("windlass.store").joinpath("sql", dialect, "migrations")
    found = [
        Migration(int(match[1]), match[2], entry.read_text("utf-8"))
        for entry in sorted(folder.iterdir(), key=lambda item: item.name)
        if (match := _FILE.fullmatch(entry.name))
    ]
    if len({migration.version for migration in found}) != len(found):
        raise ValueError(f"two migrations of {dialect} have the same number")
    return tuple(found)


def compare(applied: Sequence[tuple[int, str, str]], migrations: Sequence[Migration]) -> Status:
    """Compare the applied migrations with those of this release; a file that changed after it was applied is refused."""
    known = {migration.version: migration for migration in migrations}
    for version, name, checksum in applied:
        if version in known and known[version].checksum != checksum:
            raise SchemaError(
                f"migration {version:04d}_{name} was applied with another text than this release has; "
                "restore the file, or the database from a backup",
                found=version,
                expected=len(migrations),
            )
    done = {version for version, _, _ in applied}
    pending = [migration for migration in migrations if migration.version not in done]
    return Status([(version, name) for version, name, _ in applied], pending)


def require_current(status: Status, expected: int, url: str, cure: str) -> None:
    """Refuse a database that lacks migrations. One that has more is newer: its release promised to work with us."""
    if status.pending:
        found = status.version or None
        what = f"has version {found}" if found else "has no Windlass tables"
        raise SchemaError(
            f"the database {shown_url(url)} {what}, this release needs {expected}; {cure}",
            found=found,
            expected=expected,
        )
