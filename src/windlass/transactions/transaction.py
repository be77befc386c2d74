"""The store's verbs on a caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from windlass.clock import Clock, SystemClock
from windlass.errors import ConfigError, SchemaError
from windlass.store.database import Row
from windlass.transactions.placeholders import DriverStatement, as_rows, as_sqlite, as_text, statements_for
from windlass.transactions.protocols import Caller, DriverCaller

SAVEPOINT = "windlass_caller"
_NAMES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
_NO_TABLE = frozenset({"42P01", "3F000"})  # undefined_table, invalid_schema_name


def join(caller: Caller, dialect: str, clock: Clock | None = None) -> CallerTransaction:
    """A caller's transaction on a database of this dialect; ``ConfigError`` where it is on another, or there is none."""
    require(caller, dialect)
    return CallerTransaction(caller, clock)


def require(caller: Caller | DriverCaller, dialect: str) -> None:
    """Refuse what is no transaction, or one on another database than the jobs."""
    if caller.dialect != dialect:
        raise ConfigError(
            "transaction",
            f"a transaction on {_NAMES[caller.dialect]}",
            f"one on the database that the jobs are in, which is {_NAMES[dialect]}",
        )
    caller.require_transaction()


class _Statements:
    """Verbs as statements and values for one caller; the clock is read once."""

    def __init__(self, caller: Caller | DriverCaller, clock: Clock | None) -> None:
        self._dialect, self._style = caller.dialect, caller.style
        self._has_clock = clock is not None
        self._now = (clock or SystemClock()).now()

    def of(self, verb: str, parameters: dict[str, object]) -> Iterator[tuple[DriverStatement, Any]]:
        convert = as_text if self._dialect == "postgres" else as_sqlite
        given = {name: convert(value) for name, value in {**parameters, "now": self._now}.items()}
        for statement in statements_for(self._dialect, self._style, verb, has_clock=self._has_clock):
            yield statement, statement.values(given)


class CallerTransaction:
    """Verbs in a caller's transaction; they are committed or rolled back with it, and the caller ends it."""

    def __init__(self, caller: Caller, clock: Clock | None = None) -> None:
        self._caller = caller
        self._statements = _Statements(caller, clock)

    def run(self, verb: str, **parameters: object) -> list[Row]:
        rows: list[Row] = []
        with explain_missing_tables():
            for statement, values in self._statements.of(verb, parameters):
                result = self._caller.execute(statement.text, values)
                if result is not None:
                    rows = as_rows(result)
        return rows

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Run several verbs behind a savepoint: if one is refused, all are rolled back, and the caller may catch that and commit."""
        self._caller.begin()
        self._caller.execute(f"SAVEPOINT {SAVEPOINT}", ())
        try:
            yield
        except Exception:
            with suppress(Exception):  # the connection may be gone, and with it everything
                self._caller.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}", ())
                self._caller.execute(f"RELEASE SAVEPOINT {SAVEPOINT}", ())
            raise
        self._caller.execute(f"RELEASE SAVEPOINT {SAVEPOINT}", ())


async def run_verb(caller: DriverCaller, clock: Clock | None, verb: str, **parameters: object) -> list[Row]:
    """One verb on an async driver, awaited here."""
    rows: list[Row] = []
    with explain_missing_tables():
        for statement, values in _Statements(caller, clock).of(verb, parameters):
            result = await caller.execute(statement.text, values)
            if result is not None:
                rows = as_rows(result)
    return rows


@contextmanager
def explain_missing_tables() -> Iterator[None]:
    """Raise errors of the caller's driver unchanged, since the caller knows them; but if the tables are missing, the
    reason is nearly always that the transaction is on another database than the jobs."""
    try:
        yield
    except Exception as error:
        if _lacks_tables(error):
            raise SchemaError(
                "this transaction's database has no Windlass tables; jobs and the transaction must share one database. Give the "
                "App the same URL, and run `windlass db migrate` for it (SQLite: call app.sync() once)",
                found=None,
                expected=0,
            ) from error
        raise


def _lacks_tables(error: BaseException | None) -> bool:
    seen = 0
    while error is not None and seen < 5:  # SQLAlchemy and Django chain the driver's own
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state in _NO_TABLE or "no such table: windlass_" in str(error):
            return True
        error, seen = error.__cause__, seen + 1
    return False
