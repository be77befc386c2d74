"""``windlass audit``: who did what, when and why."""

from __future__ import annotations

from datetime import timedelta

import click

from windlass.cli.control import control
from windlass.cli.database import Chosen, service_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

COLUMNS = ("at", "actor", "act", "target", "name", "reason", "before", "after")


@click.command()
@click.option("--since", type=Duration(), metavar="DURATION", help="Only acts of the last 2h, 7d, ...")
@click.option("--actor", metavar="NAME", help="Only acts of this actor.")
@click.option(
    "--target",
    "about",
    type=click.Choice(
        ["job", "phase", "schedule", "operation", "instance", "rule", "token", "deploy", "database"]
    ),
    help="Only acts on these.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Only acts on the job, phase or schedule of this id or name; needs --target.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="How many acts, newest first.",
)
@watch_option
@service_options
@output_option
def audit(
    since: timedelta | None,
    actor: str | None,
    about: str | None,
    name: str | None,
    limit: int,
    watch: bool,
    database: Chosen,
    output: str,
) -> None:
    """Show the audit trail, newest first."""
    from datetime import UTC, datetime

    if name is not None and about is None:
        raise click.UsageError("--name needs --target")
    with control(database) as service:

        def draw() -> None:
            begin = None if since is None else datetime.now(UTC) - since
            page = service.audit.list(target=about, name=name, actor=actor, since=begin, limit=limit)
            rows = [{column: getattr(record, column) for column in COLUMNS} for record in page.records]
            show(rows, COLUMNS, output)
            if page.next_cursor is not None:
                say(f"only the newest {limit} are shown; --limit shows more")

        repeated(watch, draw)
