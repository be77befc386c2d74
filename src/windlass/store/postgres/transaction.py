"""Verbs on one connection to PostgreSQL, and how their values are read."""

from __future__ import annotations

from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.types.string import TextBinaryLoader, TextLoader

from windlass.clock import Clock
from windlass.errors import StoreError
from windlass.store.database import EFFECT, ENDED_BY_HANDLER, Row
from windlass.store.postgres.errors import translated
from windlass.store.schema.statements import load, on_change


class PostgresTransaction:
    """Verbs on one connection; the connection's transaction is the caller's business.

    ``is_foreign`` says that the connection is (also) the caller's: then our loaders are set on our cursors only.
    """

    def __init__(
        self, connection: psycopg.Connection, clock: Clock | None, prepare: bool, *, is_foreign: bool = False
    ) -> None:
        self.connection = connection
        self._clock = clock
        self._prepare = prepare
        self._is_foreign = is_foreign
        # In a session that we could not set, times as text have the form that its DateStyle says, and the driver reads one form only.
        self._is_binary = is_foreign or not prepare
        self._is_steered = not is_foreign

    def run(self, verb: str, **parameters: object) -> list[Row]:
        if self._is_foreign:  # the handler's own errors are its own; ours are translated here
            with translated():
                return self._run(verb, parameters)
        return self._run(verb, parameters)

    def confirm(self) -> None:
        with translated():  # a lost connection, or a time-out of the server's, is no deed of the handler's
            try:
                self.connection.execute(
                    f"RELEASE SAVEPOINT {EFFECT}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
                    prepare=False,
                )
            except (pg.InvalidSavepointSpecification, pg.NoActiveSqlTransaction) as error:
                raise StoreError(ENDED_BY_HANDLER) from error
        self._is_steered = True

    def _run(self, verb: str, parameters: dict[str, object]) -> list[Row]:
        rows: list[Row] = []
        for text, names in STATEMENTS[verb]:
            if "now" in names:
                parameters["now"] = self._clock.now() if self._clock else None
            cursor = self._cursor()
            values = {name: parameters[name] for name in names}
            # While the handler's own statements are still to come the session has its settings, and a plan made so is not to be kept.
            prepare = self._prepare and (self._is_steered or verb in INSERTS)
            cursor.execute(text, values, prepare=prepare, binary=self._is_binary or verb in BINARY)
            if cursor.description is not None:
                rows = cursor.fetchall()
        return rows

    def _cursor(self) -> psycopg.Cursor[Row]:
        cursor = self.connection.cursor(row_factory=tuple_row)
        if self._is_foreign:
            read_as_text(cursor.adapters)
        return cursor


def read_as_text(adapters: AdaptersMap) -> None:
    """uuid, json and jsonb stay text: the store only carries them. The driver's own loader, which is not written in Python."""
    for name in ("uuid", "json", "jsonb"):
        adapters.register_loader(name, TextLoader)
    for name, loader in (("uuid", _UuidText), ("json", TextBinaryLoader), ("jsonb", _JsonbText)):
        adapters.register_loader(name, loader)


class _UuidText(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return str(UUID(bytes=bytes(data)))


class _JsonbText(Loader):
    """Behind a byte that says which version of the form it is."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data)[1:].decode()


STATEMENTS: dict[str, list[tuple[bytes, frozenset[str]]]] = {}
"""The statements of each verb as psycopg is given them, with the names of their parameters."""


def _compile() -> None:
    for name, verb in load("postgres").items():
        STATEMENTS[name] = [(one.pyformat().encode(), one.names) for one in verb.statements]


on_change(_compile)
INSERTS = {"enqueue", "enqueue.one"}  # reads nothing
BINARY = {"step"}  # its result has many times in it: to write and read them as text costs 1 us a job


def knows(verb: str) -> bool:
    """Whether there is such a verb."""
    return verb in STATEMENTS


def text_of(verb: str) -> bytes:
    """The text of a verb that is one statement."""
    ((text, _),) = STATEMENTS[verb]
    return text
