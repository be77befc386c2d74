"""``windlass operations``: acts on many jobs, their progress, and a stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.control import control, reason_option
from windlass.cli.database import Chosen, service_options
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show, show_fields
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.operations.operation import Operation

COLUMNS = (
    "id",
    "act",
    "filter",
    "state",
    "matched",
    "done",
    "refused",
    "actor",
    "reason",
    "created_at",
    "finished_at",
)


@click.group()
def operations() -> None:
    """Show and stop acts on many jobs."""


@operations.command()
@click.option(
    "--state", type=click.Choice(["running", "done", "stopped"]), help="Only operations in this state."
)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many, newest first."
)
@watch_option
@service_options
@output_option
def ls(state: str | None, limit: int, watch: bool, database: Chosen, output: str) -> None:
    """List operations, newest first."""
    with control(database) as service:

        def draw() -> None:
            page = service.operations.list(state=state, limit=limit)
            show([record(item) for item in page.operations], COLUMNS, output)

        repeated(watch, draw)


@operations.command("show")
@click.argument("operation_id", metavar="ID")
@service_options
@output_option
def show_one(operation_id: str, database: Chosen, output: str) -> None:
    """Show one operation, with the first refusals."""
    with control(database) as service:
        found = service.operations.get(operation_id)
    refusals = [{"job": item.job_id, "code": item.code, "message": item.message} for item in found.refusals]
    show_fields({**record(found), "refusals": refusals}, output)


@operations.command()
@click.argument("operation_id", metavar="ID")
@reason_option
@service_options
def stop(operation_id: str, reason: str | None, database: Chosen) -> int | None:
    """Stop an operation. What it did to jobs stays."""
    with control(database) as service:
        was_running = service.operations.stop(operation_id, reason)
    if not was_running:
        say(f"operation {operation_id} had ended already")
        return ExitCode.CONFLICT
    say(f"operation {operation_id} is stopped")
    return None


def record(operation: Operation) -> dict[str, Any]:
    """The facts of an operation, by column."""
    return {column: getattr(operation, column) for column in COLUMNS}
