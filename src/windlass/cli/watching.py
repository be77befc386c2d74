"""``--watch``: a list that is printed again and again until it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from windlass.cli.terminal import is_terminal

EVERY = 2.0
"""Seconds between two readings."""
F = TypeVar("F", bound=Callable[..., Any])


def watch_option(function: F) -> F:
    """``--watch``."""
    option = click.option("--watch", is_flag=True, help=f"Repeat every {EVERY:g} s until Ctrl-C.")
    return option(function)


def repeated(watch: bool, draw: Callable[[], None]) -> None:
    """Print once, or with ``watch`` until the user interrupts: on a terminal in place, elsewhere one below the other."""
    if not watch:
        draw()
        return
    is_live = is_terminal()
    while True:
        if is_live:
            click.echo("\x1b[H\x1b[2J", nl=False)
        draw()
        if not is_live:
            click.echo()
        time.sleep(EVERY)
