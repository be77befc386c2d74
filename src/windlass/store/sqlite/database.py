"""SQLite through the standard library: one file, nothing to install or start.

WAL with ``synchronous=FULL`` (with batches it costs nothing, and committed means durable), every write under BEGIN
IMMEDIATE (a read that turns into a write fails at once and ignores the time-out), one writing connection per process.
Reads have a connection per thread and never wait. The database's clock is the machine's, read once the write lock is
held, so that ready_at follows the order of commits.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

from windlass.clock import Clock
from windlass.closing import close_left_open
from windlass.errors import StoreError
from windlass.forking import Process
from windlass.model import MergeStep, PlainEnd, Retention, Want
from windlass.store.database import (
    CHANNEL,
    EFFECT,
    ENDED_BY_HANDLER,
    Effect,
    EndsBefore,
    Listener,
    Row,
    Transaction,
    never,
)
from windlass.store.jobs.enqueue import RepeatRaced
from windlass.store.jobs.outcome_rows import finish_lines
from windlass.store.open_effects import OpenEffect, OpenEffects
from windlass.store.read_time import read_time
from windlass.store.schema.migrations import available, require_current
from windlass.store.schema.statements import Verb, load, on_change
from windlass.store.sqlite.connection import (
    BUSY_TIMEOUT,
    GuardedConnection,
    ListenerConnection,
    path_of,
)
from windlass.store.sqlite.connections import Connections, Wakeups
from windlass.store.sqlite.errors import translate, translated
from windlass.store.sqlite.listener import SqliteListener
from windlass.store.sqlite.migrate import migrate_sqlite, status_sqlite
from windlass.store.sqlite.times import MICROSECOND, from_micros, to_micros

T = TypeVar("T")
FOREVER = 2**62


class SqliteTransaction:
    """Verbs on one connection inside one transaction; the clock is read once for all of it."""

    def __init__(self, connection: sqlite3.Connection, now: int, path: str) -> None:
        self.connection = connection
        self._now = now
        self._path = path

    def confirm(self) -> None:
        try:
            self.connection.execute(f"RELEASE {EFFECT}")
        except sqlite3.Error as error:
            raise StoreError(ENDED_BY_HANDLER) from error

    def run(self, verb: str, **parameters: object) -> list[Row]:
        values = {
            name: value if type(value) in _AS_THEY_ARE else _bind(value) for name, value in parameters.items()
        }
        values["now"] = self._now
        rows: list[Row] = []
        try:
            for statement in STATEMENTS[verb].statements:
                cursor = self.connection.execute(statement.text, values)
                if cursor.description is not None:
                    rows = cursor.fetchall()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        return rows


STATEMENTS: dict[str, Verb] = {}
on_change(lambda: STATEMENTS.update(load("sqlite")))


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def _bind(value: object) -> Any:
    """A Python value as SQLite takes it: lists as JSON, times as microseconds."""
    match value:
        case datetime():
            return to_micros(value)
        case list() | tuple():
            return json.dumps(value)
        case _:
            return value


class SqliteDatabase:
    """One SQLite file; created and migrated when it is opened, unless ``auto_migrate`` is False."""

    dialect = "sqlite"
    low_water = notifies = records_phases = False
    bulk_from = float("inf")  # a multi-row insert is all there is

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        busy_timeout: float = BUSY_TIMEOUT,
        auto_migrate: bool = True,
    ) -> None:
        self._path = str(Path(path_of(url)).absolute())  # a later chdir must not lead to another file
        self._url = url = f"sqlite:///{quote(self._path)}"
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._wakeups = Wakeups()
        if auto_migrate:
            migrate_sqlite(url, busy_timeout=busy_timeout)
        else:
            require_current(
                status_sqlite(url), len(available("sqlite")), url, f"run `windlass db migrate --url {url}`"
            )
        self.open_effects = OpenEffects(self._path)
        self._connections = Connections(self._path, url, busy_timeout)
        self._in_turn = self._connections.in_turn

    # ------------------------------------------------------------------ running verbs

    @contextmanager
    def _begin(self, connection: sqlite3.Connection) -> Iterator[SqliteTransaction]:
        owner = Process.pid
        if connection.in_transaction:  # an interrupt hit between two lines here; it was never committed
            connection.execute("ROLLBACK")
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield SqliteTransaction(connection, self._micros(), self._path)
            if Process.pid != owner:
                raise StoreError(
                    f"{self._path}: a forked child cannot end its parent's transaction; end the child with os._exit"
                )
            self._connections.file.check()  # as late as can be: what was written until now is rolled back
            connection.execute("COMMIT")
        except BaseException:
            if Process.pid == owner and connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def run(self, verb: str, **parameters: object) -> list[Row]:
        return self.transact(lambda tx: tx.run(verb, **parameters))

    def read(self, verb: str, **parameters: object) -> list[Row]:
        values = {
            name: value if type(value) in _AS_THEY_ARE else _bind(value) for name, value in parameters.items()
        }
        values["now"] = self._micros()
        rows: list[Row] = []
        try:
            for statement in STATEMENTS[verb].statements:
                seconds = read_time()
                with (
                    self._connections.reading() as reader,
                    nullcontext() if seconds is None else reader.within(seconds),
                ):
                    rows = reader.execute(statement.text, values).fetchall()
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        except BaseException as error:
            close_left_open(error)
            raise
        return rows

    def reserved(self, need: str) -> AbstractContextManager[None]:
        return nullcontext()  # there is one writer, and threads take turns

    def transact(
        self, work: Callable[[Transaction], T], *, waits: bool = False, patience: float | None = None
    ) -> T:
        seconds = self._busy_timeout if patience is None else min(patience, self._busy_timeout)
        if self.open_effects.all:
            self.open_effects.refuse(blocks=True)
        try:
            while True:
                with self._in_turn(seconds), self._connections.lock:
                    try:
                        writer = self._connections.writer or self._connections.open_writer()
                        before = writer.total_changes
                        with self._patient(writer, seconds), self._begin(writer) as tx:
                            result = work(tx)
                    except RepeatRaced:
                        continue
                    except sqlite3.Error as error:
                        raise translate(error, self._path) from error
                    has_changed = writer.total_changes != before
                if has_changed:
                    self._wakeups.notify()
                return result
        except BaseException as error:
            close_left_open(error)
            raise

    @contextmanager
    def _patient(self, writer: sqlite3.Connection, seconds: float) -> Iterator[None]:
        """Have a connection wait so many seconds for the lock of the file."""
        if seconds == self._busy_timeout:
            yield
            return
        writer.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
        try:
            yield
        finally:
            writer.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout * 1000)}")

    @contextmanager
    def savepoint(self, tx: Transaction) -> Iterator[None]:
        connection = cast("SqliteTransaction", tx).connection
        connection.execute("SAVEPOINT windlass_part")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # the database has ended the transaction itself
                connection.execute("ROLLBACK TO SAVEPOINT windlass_part")
                connection.execute("RELEASE SAVEPOINT windlass_part")
            raise
        connection.execute("RELEASE SAVEPOINT windlass_part")

    def is_worth(self, verb: str, **parameters: object) -> bool:
        return bool(self.read(f"{verb}.due", **parameters))

    def step(
        self,
        *,
        instance: str,
        outcomes: Sequence[PlainEnd],
        aside: int,
        emptied: Sequence[int],
        wants: Sequence[Want],
        marks: Sequence[datetime | None],
        ends: EndsBefore | None = None,
    ) -> tuple[Sequence[str] | None, list[Row]]:
        if not (outcomes or emptied or ends or any(map(self._has_ready, wants))):
            return None, []  # an idle instance reads; it never writes

        lines = finish_lines(outcomes)

        def work(tx: Transaction) -> tuple[Sequence[str] | None, list[Row]]:
            if ends:
                ends.record(tx)
            finished = self._end(tx, lines, len(outcomes), aside, instance) if outcomes else None
            if emptied:
                tx.run("claim.emptied", emptied=list(emptied), instance=instance)
            claimed: list[Row] = []
            for want in wants:
                if want.limit:
                    claimed += self._claim(tx, instance, want)
            if ends:
                ends.notify(tx, claimed)
            return finished, claimed

        return self.transact(work)

    def _end(
        self, tx: Transaction, ends: str, expected: int, aside: int, instance: str
    ) -> Sequence[str] | None:
        """End jobs the short way; which ones, unless it is all of them."""
        ((count,),) = tx.run("record.plain", outcomes=ends, aside=aside, instance=instance)
        if count == expected:  # as good as always: to name each of them would cost as much as to delete it
            tx.run("record.plain_gone")
            finished = None
        else:
            finished = [row[0] for row in tx.run("record.plain_finished")]
        tx.run("record.plain_counted")
        return finished

    def _upto(self, want: Want) -> int:
        return self._micros() - want.quiet // MICROSECOND if want.quiet else FOREVER

    def _has_ready(self, want: Want) -> bool:
        return bool(
            want.limit
            and self.read("claim.ready", phase=want.phase, upto=self._upto(want), suspects=want.suspects)
        )

    def _claim(self, tx: Transaction, instance: str, want: Want) -> list[Row]:
        granted = tx.run("claim.token", instance=instance, phase=want.phase)
        if not granted:
            return []  # paused, or this instance was declared dead
        token = granted[0][0]
        starting = want.limit if want.starting is None else max(0, want.starting)
        rows = tx.run(
            "claim",
            phase=want.phase,
            token=token,
            limit=want.limit,
            starting=starting,
            upto=self._upto(want),
            suspects=want.suspects,
        )
        if rows:
            tx.run("claim.count", phase=want.phase, n=len(rows))
        else:
            tx.run("claim.none", token=token)
        return rows

    @contextmanager
    def effect(self, seconds: float, opened: OpenEffect | None = None) -> Iterator[SqliteTransaction]:
        """A handler's transaction, on a connection of its own. It holds the file's one write lock until it ends, so it
        should be short; a process that dies frees it."""
        patience = min(self._busy_timeout, seconds)
        owner = Process.pid
        with self._in_turn(patience):  # all the time that the connection is there: a fork waits for its turn
            connection = self._connections.open(patience, GuardedConnection)
            if opened is not None:
                opened.thread = threading.get_ident()
            try:
                begin = self._begin(connection)
                with translated(self._path):
                    tx = begin.__enter__()
                    connection.execute(f"SAVEPOINT {EFFECT}")
                try:
                    yield tx
                except BaseException as error:
                    with suppress(type(error)):
                        begin.__exit__(type(error), error, error.__traceback__)
                    raise
                with translated(self._path):
                    begin.__exit__(None, None, None)
            finally:
                if Process.pid == owner:
                    self._connections.end(connection)
        self._wakeups.notify()

    def fenced(self, tx: Effect, work: Callable[[], T]) -> T:
        return work()

    # ------------------------------------------------------------------ hints and time

    def notify(self, tx: Transaction, phases: Iterable[str], *, nudge: bool = False) -> None:
        """Every commit is seen through data_version; there is nothing to add."""

    def wait(self, phases: Sequence[str], seconds: float) -> None:
        """Does nothing: listeners see every commit, and a commit costs the same either way."""

    def listen(self, channel: str = CHANNEL) -> Listener:
        return SqliteListener(
            lambda: self._connections.open(self._busy_timeout, ListenerConnection), self._wakeups
        )

    def moment(self, value: Any) -> Any:
        return None if value is None else from_micros(value)

    def stamp(self, value: datetime | None) -> Any:
        return None if value is None else to_micros(value)

    @property
    def clock(self) -> Clock | None:
        return self._clock

    def now(self) -> datetime:
        return datetime.now(UTC) if self._clock is None else self._clock.now()

    def _micros(self) -> int:
        return time.time_ns() // 1000 if self._clock is None else to_micros(self._clock.now())

    def upkeep(self) -> None:
        with translated(self._path):
            self._connections.shorten_log()

    def bulk(self, lines: Callable[[str], Iterable[str]], phases: str) -> list[Row]:
        raise AssertionError("bulk_from says never")

    def drop_history(
        self, keep: Retention, *, only_empty: bool = False, is_stopping: Callable[[], bool] = never
    ) -> int:
        return 0  # one table, nothing to drop: rows go one by one

    def merge_history(self, *, always: bool, page: int) -> MergeStep | None:
        return None

    def partitions(self) -> int:
        return 0

    def close(self) -> None:
        self._connections.close()
