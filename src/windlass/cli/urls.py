"""The database a command works on, and how to speak of it without its password."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.errors import ConfigError

VARIABLE = "WINDLASS_DATABASE_URL"
DEFAULT = "sqlite:///windlass.db"

F = TypeVar("F", bound=Callable[..., Any])

# From the colon after the user to the last @ of the word, and password=... of a query or a libpq connection string.
_USER_INFO = re.compile(r":(?!//)[^\s\"']*@")
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&;\"']+)", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A text that may be shown, whatever URL it quotes."""
    return _PASSWORD.sub(r"\1***", _USER_INFO.sub(":***@", text))


def dialect_of(url: str) -> str:
    """``sqlite`` or ``postgres``; another scheme is refused before any driver sees (and quotes) the URL."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        return "sqlite"
    if scheme in ("postgresql", "postgres") and url.startswith(f"{scheme}://"):
        return "postgres"
    raise ConfigError(
        "url", without_secrets(url), "sqlite:///file.db or postgresql://user@host:port/database"
    )


def url_option(function: F) -> F:
    """``--url``, else the environment, else a SQLite file in this folder."""
    option = click.option(
        "--url",
        envvar=VARIABLE,
        default=DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="URL",
        help="The database. Put URLs with a password into the environment: other users can see command lines.",
    )
    return option(function)
