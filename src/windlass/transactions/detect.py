"""Which library an object belongs to. Classes are known by their names, so that nothing is imported to find out."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from windlass.errors import ConfigError
from windlass.transactions.protocols import AsyncCaller, Caller

ACCEPTED = (
    "psycopg Connection or AsyncConnection, asyncpg Connection, sqlite3 or aiosqlite Connection, SQLAlchemy Connection, "
    "Session, AsyncConnection or AsyncSession, django.db.connection"
)


class _Library(NamedTuple):
    module: str
    name: str
    is_async: bool = False


# Top package and name of a class, and the caller class for its objects; base classes count.
_HOMES = {
    ("psycopg", "Connection"): _Library("psycopg", "PsycopgCaller"),
    ("psycopg", "AsyncConnection"): _Library("psycopg", "AsyncPsycopgCaller", is_async=True),
    ("asyncpg", "Connection"): _Library("asyncpg", "AsyncpgCaller", is_async=True),
    ("asyncpg", "PoolConnectionProxy"): _Library("asyncpg", "AsyncpgCaller", is_async=True),
    ("sqlite3", "Connection"): _Library("sqlite", "SqliteCaller"),
    ("aiosqlite", "Connection"): _Library("sqlite", "AiosqliteCaller", is_async=True),
    ("sqlalchemy", "Connection"): _Library("sqlalchemy", "ConnectionCaller"),
    ("sqlalchemy", "Session"): _Library("sqlalchemy", "SessionCaller"),
    ("sqlalchemy", "scoped_session"): _Library("sqlalchemy", "SessionCaller"),
    ("sqlalchemy", "AsyncConnection"): _Library("sqlalchemy", "AsyncConnectionCaller", is_async=True),
    ("sqlalchemy", "AsyncSession"): _Library("sqlalchemy", "AsyncSessionCaller", is_async=True),
    ("sqlalchemy", "async_scoped_session"): _Library("sqlalchemy", "AsyncSessionCaller", is_async=True),
    ("django", "ConnectionProxy"): _Library("django", "DjangoCaller"),
    ("django", "BaseDatabaseWrapper"): _Library("django", "DjangoCaller"),
}


def sync_caller(where: Any) -> Caller:
    """The transaction that a sync connection or session is in."""
    library = _library_of(where)
    if library.is_async:
        raise ConfigError(
            "transaction",
            _name(where),
            because="it is an async one: await the form whose name ends in _async",
        )
    caller: Caller = _class(library)(where)
    return caller


def async_caller(where: Any) -> AsyncCaller:
    """The transaction that an async connection or session is in."""
    library = _library_of(where)
    if not library.is_async:
        raise ConfigError("transaction", _name(where), because=_why_not_async(library))
    caller: AsyncCaller = _class(library)(where)
    return caller


def _library_of(where: Any) -> _Library:
    for kind in type(where).__mro__:
        library = _HOMES.get((kind.__module__.partition(".")[0], kind.__name__))
        if library is not None:
            return library
    raise ConfigError("transaction", _name(where), f"one of: {ACCEPTED}")


def _why_not_async(library: _Library) -> str:
    if library.module == "django":
        return "Django's connections belong to a thread: use `sync_to_async` and the form whose name does not end in _async"
    return (
        "it is a sync one, which would block the event loop: use the form whose name does not end in _async"
    )


def _class(library: _Library) -> Any:
    return getattr(import_module(f"windlass.transactions.{library.module}"), library.name)


def _name(where: Any) -> str:
    return f"{type(where).__module__}.{type(where).__qualname__}"
