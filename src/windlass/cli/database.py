"""The options ``--app`` and ``--url`` of every command that uses a database, and the database that they name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windlass.urls import dialect_of, shown_url

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.config import Config
    from windlass.features import Store

CONNECT = 3.0
"""Seconds that a command waits for a connection, unless ``database.connect_timeout`` is set, or for a first response of a server."""
SOURCES = 'give --url URL, --app MODULE:APP or the variable WINDLASS_DATABASE_URL, or write url = "…" under [database] in windlass.toml'

app_option = click.option(
    "--app", "target", metavar="MODULE:APP", help="Use the database and the settings of this app."
)
url_option = click.option(
    "--url",
    metavar="URL",
    help="The database, whatever code, environment and windlass.toml say. "
    "Put URLs with a password into the environment: other users can see command lines.",
)


@dataclass(frozen=True, slots=True)
class ChosenDatabase:
    """The database of a command, and where its URL came from."""

    url: str
    origin: str
    config: Config
    app: App | None

    @property
    def named(self) -> str:
        """The URL without its password, with its origin unless the command line gave it."""
        return _named(self.url, self.origin)

    @property
    def connect_timeout(self) -> float:
        """Seconds to wait for a connection."""
        from windlass.config import DEFAULT

        key = "database.connect_timeout"
        return CONNECT if self.config.origin(key) == DEFAULT else float(self.config[key])

    @property
    def owner_url(self) -> str:
        """The URL for changes of tables: the way around a pooler, if one is configured."""
        return self.config.direct_url or self.url

    @property
    def owner_named(self) -> str:
        """``owner_url`` as ``named`` shows it."""
        direct = self.config.direct_url
        return self.named if direct is None else _named(direct, self.config.origin("database.direct_url"))


def _named(url: str, origin: str) -> str:
    shown = shown_url(url)
    return shown if origin == "flag --url" else f"{shown} ({origin})"


server_option = click.option(
    "--server",
    metavar="URL",
    help="Use the REST API of this server instead of a database; its token is WINDLASS_TOKEN. [WINDLASS_SERVER]",
)


@dataclass(frozen=True, slots=True)
class ChosenServer:
    """The server of a command that uses no database."""

    url: str
    app: None = None


Chosen = ChosenDatabase | ChosenServer


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--server``, ``--app`` and ``--url``; the command gets the ``ChosenServer`` or the ``ChosenDatabase``, as ``database``."""

    @functools.wraps(command)
    def run(*args: Any, server: str | None, target: str | None, url: str | None, **options: Any) -> Any:
        return command(*args, database=choose_service(server, target, url), **options)

    return server_option(app_option(url_option(run)))


def choose_service(server: str | None, target: str | None, url: str | None) -> Chosen:
    """The server or the database that a command uses; WINDLASS_SERVER counts unless the command line names a database."""
    import os

    named = target or url
    if server and named:
        raise click.UsageError("give --server, or --app and --url")
    address = server or (None if named else os.environ.get("WINDLASS_SERVER"))
    return ChosenServer(address) if address else choose(target, url)


def database_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--app`` and ``--url``; the command gets the ``ChosenDatabase``, as its parameter ``database``."""

    @functools.wraps(command)
    def run(*args: Any, target: str | None, url: str | None, **options: Any) -> Any:
        return command(*args, database=choose(target, url), **options)

    return app_option(url_option(run))


def configured(target: str | None, url: str | None, file: Path | None = None) -> tuple[Config, App | None]:
    """The configuration of a command: that of an app, or that of the environment and windlass.toml; the command line wins."""
    from windlass.config import load, url_flags

    flags = url_flags(url)
    if target is None:
        return load(flags=flags, file=file), None
    from windlass.cli.load_app import load_app

    app = load_app(target)
    app.parts.use_flags(flags)
    return app.parts.own.shown(), app


def choose(target: str | None, url: str | None) -> ChosenDatabase:
    """The database that a command uses. Without any URL it is the default, if that file exists: no command makes a database that no
    setting names."""
    from windlass.config import DEFAULT
    from windlass.errors import ConfigError
    from windlass.setting_keys import URL

    config, app = configured(target, url)
    if (
        app is None
        and config.origin(URL) == DEFAULT
        and not Path(config.url.removeprefix("sqlite:///")).exists()
    ):
        raise ConfigError(URL, None, because=f"nothing sets it; {SOURCES}")
    return ChosenDatabase(config.url, config.origin(URL), config, app)


@contextmanager
def existing_store(database: ChosenDatabase) -> Iterator[Store]:
    """Open a store whose tables are current. A missing SQLite file is an error: opening it would create it, and its name may be mistyped."""
    url = database.url
    dialect = dialect_of(url)
    from windlass.errors import SchemaError
    from windlass.features import open_store
    from windlass.store.migrate import status
    from windlass.store.schema.migrations import available, require_current

    if dialect == "sqlite":
        from windlass.store.sqlite.connection import path_of

        if not Path(path_of(url)).exists():
            cure = "correct the URL, or make the file: `windlass db migrate` with the same --app or --url"
            raise SchemaError(
                f"the file of the database {database.named} does not exist; {cure}",
                found=None,
                expected=len(available(dialect)),
            )
    cure = "run `windlass db migrate` with the same --app or --url, or correct the URL"
    require_current(status(url, timeout=database.connect_timeout), len(available(dialect)), url, cure)
    if database.app is None:
        options = database.config.store_options(dialect)
        if dialect != "sqlite":
            options["connect_timeout"] = database.connect_timeout
        with open_store(url, **options) as store:
            yield store
        return
    try:
        yield database.app.store
    finally:
        database.app.close()
