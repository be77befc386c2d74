"""``windlass deploys``: marks of deploys on the charts."""

from __future__ import annotations

from datetime import timedelta

import click

from windlass.cli.control import control
from windlass.cli.database import Chosen, service_options
from windlass.cli.durations import Duration
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

COLUMNS = ("at", "text", "actor", "is_code")


@click.group()
def deploys() -> None:
    """Mark deploys on the charts of the dashboard, and list the marks.

    Workers with the setting worker.version mark a start with another version by themselves.
    """


@deploys.command()
@click.argument("text")
@service_options
@output_option
def mark(text: str, database: Chosen, output: str) -> None:
    """Mark this moment with TEXT, such as a version."""
    with control(database) as service:
        found = service.deploys.mark(text)
    show([{column: getattr(found, column) for column in COLUMNS}], COLUMNS, output)


@deploys.command()
@click.option("--since", type=Duration(), metavar="DURATION", help="Only marks of the last 2h, 7d, ...")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="How many marks.")
@watch_option
@service_options
@output_option
def ls(since: timedelta | None, limit: int, watch: bool, database: Chosen, output: str) -> None:
    """List marks, newest first."""
    from datetime import UTC, datetime

    with control(database) as service:

        def draw() -> None:
            begin = None if since is None else datetime.now(UTC) - since
            found = service.deploys.list(since=begin, limit=limit)
            show([{column: getattr(one, column) for column in COLUMNS} for one in found], COLUMNS, output)

        repeated(watch, draw)
