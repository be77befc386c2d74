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


class _Home(NamedTuple):
    module: str
    name: str
    is_async: bool = False


# Top package and name of a class, and the caller class for its objects; base classes count.
_HOMES = {
    ("psycopg", "Connection"): _Home("psycopg", "PsycopgCaller"),
    ("psycopg", "AsyncConnection"): _Home("psycopg", "AsyncPsycopgCaller", is_async=True),
    ("asyncpg", "Connection"): _Home("asyncpg", "AsyncpgCaller", is_async=True),
    ("asyncpg", "PoolConnectionProxy"): _Home("asyncpg", "AsyncpgCaller", is_async=True),
    ("sqlite3", "Connection"): _Home("sqlite", "SqliteCaller"),
    ("aiosqlite", "Connection"): _Home("sqlite", "AiosqliteCaller", is_async=True),
    ("sqlalchemy", "Connection"): _Home("sqlalchemy", "ConnectionCaller"),
    ("sqlalchemy", "Session"): _Home("sqlalchemy", "SessionCaller"),
    ("sqlalchemy", "scoped_session"): _Home("sqlalchemy", "SessionCaller"),
    ("sqlalchemy", "AsyncConnection"): _Home("sqlalchemy", "AsyncConnectionCaller", is_async=True),
    ("sqlalchemy", "AsyncSession"): _Home("sqlalchemy", "AsyncSessionCaller", is_async=True),
    ("sqlalchemy", "async_scoped_session"): _Home("sqlalchemy", "AsyncSessionCaller", is_async=True),
    ("django", "ConnectionProxy"): _Home("django", "DjangoCaller"),
    ("django", "BaseDatabaseWrapper"): _Home("django", "DjangoCaller"),
}


def plain_caller(where: Any) -> Caller:
    """The transaction that a plain connection or session is in."""
    home = _home(where)
    if home.is_async:
        raise ConfigError(
            "transaction",
            _name(where),
            because="it is an async one: await the form whose name ends in _async",
        )
    caller: Caller = _class(home)(where)
    return caller


def async_caller(where: Any) -> AsyncCaller:
    """The transaction that an async connection or session is in."""
    home = _home(where)
    if not home.is_async:
        raise ConfigError("transaction", _name(where), because=_for_plain(home))
    caller: AsyncCaller = _class(home)(where)
    return caller


def _home(where: Any) -> _Home:
    for kind in type(where).__mro__:
        home = _HOMES.get((kind.__module__.partition(".")[0], kind.__name__))
        if home is not None:
            return home
    raise ConfigError("transaction", _name(where), f"one of: {ACCEPTED}")


def _for_plain(home: _Home) -> str:
    if home.module == "django":
        return "Django's connections belong to a thread: use `sync_to_async` and the form whose name does not end in _async"
    return (
        "it is a plain one, which would block the event loop: use the form whose name does not end in _async"
    )


def _class(home: _Home) -> Any:
    return getattr(import_module(f"windlass.transactions.{home.module}"), home.name)


def _name(where: Any) -> str:
    return f"{type(where).__module__}.{type(where).__qualname__}"
