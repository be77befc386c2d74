"""The control service of a command: opened from ``--app`` and ``--url``, with the user of the operating system as its actor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import click

from windlass.cli.database import CONNECT, Chosen, ChosenDatabase, ChosenServer, existing_store

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.control.service import Control

reason_option = click.option(
    "--reason", metavar="TEXT", help="Why; it is written to the audit trail and shown to operators."
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def os_actor() -> str:
    """The name of the actor of commands: the user and the host."""
    import getpass
    import platform

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        import os

        user = str(os.getuid())
    return f"os:{user}@{platform.node()}"


@contextmanager
def control(database: Chosen) -> Iterator[Control]:
    """The control service on the database of a command, or a client of its server, which has the verbs that commands with ``--server`` use.
    Secrets are hidden: people read what commands print."""
    if isinstance(database, ChosenServer):
        from windlass.client import Client

        with Client(database.url) as client:
            client.check(CONNECT)
            yield cast("Control", client)
        return
    from windlass.app.app import App
    from windlass.control.actor import Actor

    with existing_store(database) as store:
        app = database.app or App(config=database.config, store=store)
        yield app.acting_as(Actor(os_actor(), hides_secrets=True))


def app_of(database: ChosenDatabase, why: str) -> App:
    """The app of a command that needs one."""
    if database.app is None:
        raise click.UsageError(f"{why}; give --app MODULE:APP")
    return database.app


def confirm(question: str, *, yes: bool) -> None:
    """Ask before an act that cannot be undone. Without a terminal ``--yes`` is required."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes: there is no terminal to ask on. Nothing was changed.")
    click.confirm(question, abort=True, err=True)


def span(seconds: float) -> str:
    """A span of time for people: 12 s, 4 min, 3.2 h, 5 d."""
    for least, unit, name in ((172_800, 86_400, "d"), (7200, 3600, "h"), (120, 60, "min")):
        if seconds >= least:
            number = seconds / unit
            return f"{number:.1f} {name}" if number < 10 else f"{number:.0f} {name}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
