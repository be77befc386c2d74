"""The option ``--url``: the database of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

VARIABLE = "WINDLASS_DATABASE_URL"
DEFAULT = "sqlite:///windlass.db"

F = TypeVar("F", bound=Callable[..., Any])


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
