"""What the commands that serve have in common on the command line: which app they serve, what they log, and the link that they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def log_options(command: F) -> F:
    """Add ``--log`` and ``--level``."""
    formats = click.option(
        "--log",
        "style",
        type=click.Choice(["auto", "console", "json", "none"]),
        default="auto",
        show_default=True,
        help="Log format. auto leaves logging alone if the application configures it; none always does.",
    )
    level = click.option(
        "--level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="Lowest log level; debug shows every job. [info]",
    )
    return formats(level(command))


def sign_in(link: str) -> str:
    """What a command prints of the link that signs a browser in."""
    return f"Sign in with a browser, once and within an hour: {link}"


def one_app(app: str | None, target: str | None, who: str) -> str | None:
    """The app to serve: it is the command's argument, or follows --app as in other commands."""
    if app is not None and target is not None and app != target:
        raise click.UsageError(f"two apps are named, {app} and --app {target}; {who} serves one")
    return app or target
