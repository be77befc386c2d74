"""PostgreSQL through psycopg 3: connections, transactions, and the one-statement step."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date, datetime
from typing import Any, TypeVar, cast

import psycopg
from psycopg import errors as pg
from psycopg.pq import ExecStatus

from windlass.clock import Clock
from windlass.closing import close_left_open
from windlass.errors import ConfigError, StoreError
from windlass.model import MergeStep, PlainEnd, Retention, Want
from windlass.model.history import OWNER_ADVICE, PartitionsLeft
from windlass.observe.logger import get_logger
from windlass.store.database import (
    CHANNEL,
    EFFECT,
    NUDGE,
    Effect,
    EndsBefore,
    Listener,
    Row,
    Transaction,
    never,
)
from windlass.store.jobs.claim_columns import claim_columns
from windlass.store.jobs.enqueue import RepeatRaced
from windlass.store.jobs.outcome_rows import finish_columns
from windlass.store.open_effects import OpenEffect
from windlass.store.postgres import months, partitions
from windlass.store.postgres import sessions as postgres_sessions
from windlass.store.postgres.connections import Connections
from windlass.store.postgres.errors import REPEATABLE, lacks_partition, translated
from windlass.store.postgres.listener import PostgresListener
from windlass.store.postgres.migrate import migrate_postgres, read_status
from windlass.store.postgres.transaction import PostgresTransaction, knows, text_of
from windlass.store.read_time import read_time
from windlass.store.schema.migrations import require_current

log = get_logger("windlass.store")

T = TypeVar("T")
REPEATS = 8
CONNECT_TIMEOUT = 5.0
"""Seconds that a call waits for a connection before it raises ``StoreUnreachableError``."""
REMOVAL_PATIENCE = "5s"
"""How long the removal of a day of history waits for its readers; then it is left for the next time."""


class PostgresDatabase:
    """One PostgreSQL database.

    ``pooled`` says that the URL leads through a transaction pooler: no prepared statements, no session settings, and no
    notifications unless ``direct_url`` leads around it. ``clock`` replaces the database's clock in tests.
    """

    dialect = "postgres"
    low_water = notifies = records_phases = True
    open_effects = None  # an open transaction does not block other writes
    bulk_from = 500.0  # measured, jobs/s: 31k both ways at 100; 44k to 84k at 1,000; 53k to 115k at 20,000

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        pooled: bool = False,
        direct_url: str | None = None,
        max_connections: int = 8,
        auto_migrate: bool = False,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        if max_connections < 1:
            raise ConfigError("max_connections", max_connections, "a whole number of 1 or more")
        self._url = url
        self._direct_url = direct_url or (None if pooled else url)
        self._clock = clock
        self._pooled = pooled
        if auto_migrate:
            migrate_postgres(self._direct_url or url)
        self._connect_timeout = connect_timeout
        self._told: bool | None = None  # of partitions that the owner has to make: whether they were late
        self._has_warned_of_rows = False
        self._check(connect_timeout)
        self._connections = Connections(url, most=max_connections, timeout=connect_timeout, pooled=pooled)
        self._connection, self.reserved = self._connections.connection, self._connections.reserved
        self._connections.open()

    def _check(self, connect_timeout: float) -> None:
        """Fail now, and clearly, where a pool would only time out."""
        options: dict[str, Any] = {"client_encoding": postgres_sessions.ENCODING}
        with (
            translated(),
            psycopg.connect(
                self._url, autocommit=True, connect_timeout=max(1, int(connect_timeout)), **options
            ) as one,
        ):
            if one.info.server_version < 140000:
                raise ConfigError(
                    "url", f"PostgreSQL {one.info.server_version // 10000}", "PostgreSQL 14 or newer"
                )
            postgres_sessions.refuse_encoding(one)
            status = read_status(one)
            require_current(
                status,
                len(status.applied) + len(status.pending),
                self._url,
                "run `windlass db migrate` for it (--app MODULE:APP, or --url)",
            )
            self._missing_settings = postgres_sessions.missing_settings(one).encode() if self._pooled else b""

    # ------------------------------------------------------------------ running verbs

    def _on(self, connection: psycopg.Connection) -> PostgresTransaction:
        return PostgresTransaction(connection, self._clock, prepare=not self._pooled)

    def _repeat(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Run something that is safe to repeat, and repeat it when the database asks for it or a partition is missing."""
        try:
            for left in reversed(range(REPEATS)):
                with self._connection() as connection:
                    try:
                        return (
                            self._with_settings(work, connection)
                            if self._missing_settings
                            else work(connection)
                        )
                    except REPEATABLE:
                        if not left:
                            raise
                    except (RepeatRaced, pg.UniqueViolation):
                        if not left:
                            raise
                    except pg.CheckViolation as error:
                        if not left or not lacks_partition(error):
                            raise
                        log.warning("history had no partition for today; making it now. Is upkeep running?")
                        self._ensure_partitions(connection)
                time.sleep(random.random() * 0.02)
            raise AssertionError("unreachable")
        except BaseException as error:
            close_left_open(error)
            raise

    def _with_settings(self, work: Callable[[psycopg.Connection], T], connection: psycopg.Connection) -> T:
        with connection.transaction():
            connection.execute(self._missing_settings, prepare=False)
            return work(connection)

    def run(self, verb: str, **parameters: object) -> list[Row]:
        return self._repeat(lambda connection: self._on(connection).run(verb, **parameters))

    def read(self, verb: str, **parameters: object) -> list[Row]:
        if (seconds := read_time()) is None:
            return self.run(verb, **parameters)

        def limited(connection: psycopg.Connection) -> list[Row]:
            with connection.transaction():
                connection.execute(f"SET LOCAL statement_timeout = {max(1, int(seconds * 1000))}")
                return self._on(connection).run(verb, **parameters)

        return self._repeat(limited)

    def transact(
        self, work: Callable[[Transaction], T], *, waits: bool = False, patience: float | None = None
    ) -> T:
        seconds = self._connect_timeout if patience is None else patience

        def in_transaction(connection: psycopg.Connection) -> T:
            with connection.transaction():
                if waits:
                    connection.execute(f"SET LOCAL lock_timeout = {max(1, int(seconds * 1000))}")
                return work(self._on(connection))

        if not waits or self._connections.is_reserved:
            return self._repeat(in_transaction)
        try:
            with self._connections.waiting(seconds):
                return self._repeat(in_transaction)
        except BaseException as error:
            close_left_open(error)
            raise

    @contextmanager
    def savepoint(self, tx: Transaction) -> Iterator[None]:
        # Past the driver, which would let go of all prepared statements at a ROLLBACK TO.
        execute = cast("PostgresTransaction", tx).connection.pgconn.exec_
        execute(b"SAVEPOINT windlass_part")
        try:
            yield
        except BaseException:
            execute(b"ROLLBACK TO SAVEPOINT windlass_part")
            execute(b"RELEASE SAVEPOINT windlass_part")
            raise
        if execute(b"RELEASE SAVEPOINT windlass_part").status != ExecStatus.COMMAND_OK:
            raise StoreError("a part of a transaction could not be ended; nothing of the transaction is kept")

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
        parameters = {
            "instance": instance,
            **finish_columns(outcomes),
            "expected": len(outcomes),
            "aside": aside,
            "emptied": list(emptied),
            **claim_columns(wants, marks),
        }

        def work(tx: Transaction, first: EndsBefore) -> list[Row]:
            first.record(tx)
            found = tx.run("step", **parameters)
            first.notify(tx, [row[1:] for row in found if row[1] is not None])
            return found

        rows = self.run("step", **parameters) if ends is None else self.transact(lambda tx: work(tx, ends))
        finished = next((row[0] for row in rows if row[1] is None), "")
        claimed = [row[1:] for row in rows if row[1] is not None]
        return (None if finished is None else [part for part in finished.split(",") if part]), claimed

    def bulk(self, lines: Callable[[str], Iterable[str]], phases: str) -> list[Row]:
        tail = f"\t{self._clock.now().isoformat()}" * 2 + "\n" if self._clock else "\n"
        verb = "enqueue.copy_at" if self._clock else "enqueue.copy"

        def stream(connection: psycopg.Connection) -> list[Row]:
            with connection.transaction():
                with connection.cursor() as cursor, cursor.copy(text_of(verb)) as copy, _hide_from_server():
                    for chunk in lines(tail):
                        copy.write(chunk)
                return self._on(connection).run("enqueue.copied", phases=phases)

        try:
            return self._repeat(stream)
        except _CopyAborted as given_up:
            error = given_up.error
        raise error

    @contextmanager
    def effect(self, seconds: float, opened: OpenEffect | None = None) -> Iterator[PostgresTransaction]:
        """A handler's transaction; both time-outs end with it, so they are safe behind a pooler."""
        milliseconds = str(max(1, int(seconds * 1000)))
        with self._connections.borrowed(self._connections.effects) as connection:
            # Not connection.transaction(), which would keep the pipeline until the end of the transaction.
            transaction = psycopg.Transaction(connection)
            with translated(), self._one_round_trip(connection):
                transaction.__enter__()
                connection.execute(
                    "SELECT set_config('idle_in_transaction_session_timeout', %s, true), set_config('statement_timeout', %s, true)",
                    (milliseconds, milliseconds),
                )
                connection.execute(f"SAVEPOINT {EFFECT}")
            try:
                yield PostgresTransaction(connection, self._clock, prepare=not self._pooled, is_foreign=True)
            except BaseException as error:
                transaction.__exit__(type(error), error, error.__traceback__)
                raise
            with translated():
                transaction.__exit__(None, None, None)

    def _one_round_trip(self, connection: psycopg.Connection) -> AbstractContextManager[object]:
        """Send the statements of a block together; behind a pooler, which may not know this mode, one by one."""
        return nullcontext() if self._pooled or not psycopg.Pipeline.is_supported() else connection.pipeline()

    def fenced(self, tx: Effect, work: Callable[[], T]) -> T:
        try:
            with tx.connection.transaction():
                return work()
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.Error) or not lacks_partition(error.__cause__):
                raise
        with self._connection() as connection:
            self._ensure_partitions(connection)
        return work()

    # ------------------------------------------------------------------ hints and time

    def notify(self, tx: Transaction, phases: Iterable[str], *, nudge: bool = False) -> None:
        names = sorted(phases)
        if names:
            tx.run("notify", phases=names, prefix=NUDGE if nudge else "")

    def wait(self, phases: Sequence[str], seconds: float) -> None:
        self.run("wait", phases=sorted(phases), seconds=seconds)

    def listen(self, channel: str = CHANNEL) -> Listener:
        return PostgresListener(self._direct_url, channel)

    def moment(self, value: Any) -> Any:
        return value  # the driver gives aware datetimes

    def stamp(self, value: datetime | None) -> Any:
        return None if value is None else value.isoformat()

    @property
    def clock(self) -> Clock | None:
        return self._clock

    def now(self) -> datetime:
        if self._clock:
            return self._clock.now()
        with self._connection() as connection:
            return connection.execute("SELECT clock_timestamp()", binary=True).fetchone()[0]  # type: ignore[index,no-any-return]

    # ------------------------------------------------------------------ history partitions

    def upkeep(self) -> PartitionsLeft | None:
        with self._connection() as connection:
            if partitions.may_make(connection):
                self._ensure_partitions(connection)
                partitions.unmark_left(connection)
                self._told = None
                return None
            left = partitions.left_by_owner(connection, around=self._today)
        if self._told != left.is_late:  # one line when it is found, and one more when it is late
            self._told = left.is_late
            log.log(logging.WARNING if left.is_late else logging.INFO, "%s. %s", left.text, OWNER_ADVICE)
        return left

    def _ensure_partitions(self, connection: psycopg.Connection) -> None:
        partitions.ensure(connection, around=self._today)

    @property
    def _today(self) -> date | None:
        """The day of the clock that replaces the database's, if there is one."""
        return self._clock.now().date() if self._clock else None

    def drop_history(
        self, keep: Retention, *, only_empty: bool = False, is_stopping: Callable[[], bool] = never
    ) -> int:
        lasts = [keep.completed, keep.failed, keep.cancelled]
        if any(item is None for item in lasts) or self._direct_url is None:
            return 0
        now = self.now()
        cutoff = now - max(item for item in lasts if item is not None)
        with translated(), psycopg.connect(self._direct_url, autocommit=True) as connection:
            postgres_sessions.configure(connection)
            connection.execute(f"SET lock_timeout = '{REMOVAL_PATIENCE}'")
            try:
                dropped = partitions.drop_before(
                    connection, cutoff, only_empty=only_empty, now=now, is_stopping=is_stopping
                )
            except pg.InsufficientPrivilege:
                if not self._has_warned_of_rows:
                    self._has_warned_of_rows = True
                    log.warning(
                        "this role does not own the tables: removing jobs row by row instead of whole days"
                    )
                return 0
        return sum(sum(held.values()) for held in dropped.values())

    def merge_history(self, *, always: bool, page: int) -> MergeStep | None:
        with self._connection() as connection:
            return months.step(connection, most=0 if always else months.MOST, page=page, around=self._today)

    def partitions(self) -> int:
        with self._connection() as connection:
            return len(partitions.attached(connection))

    def is_worth(self, verb: str, **parameters: object) -> bool:
        check = f"{verb}.due"  # most have none: a check first would cost as much as the verb
        return not knows(check) or bool(self.read(check, **parameters))

    def close(self) -> None:
        self._connections.close()


class _CopyAborted(Exception):  # noqa: N818  a signal within this module
    """Replaces an error of the caller's code while a COPY is open: the driver sends the text of an exception to the server, and it must not
    appear in the server's log."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("by the caller")
        self.error = error


@contextmanager
def _hide_from_server() -> Iterator[None]:
    try:
        yield
    except psycopg.Error:
        raise
    except BaseException as error:  # noqa: BLE001  it is raised again outside
        raise _CopyAborted(error) from None
