"""``windlass failures``: failed jobs by their cause, and retries of all of one cause."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from windlass.cli.bulk import act_on_many
from windlass.cli.control import control, reason_option, yes_option
from windlass.cli.database import Chosen, service_options
from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

COLUMNS = ("kind", "phase", "type", "place", "hour", "day", "week", "total", "last_at", "message", "sample")
FIELDS = (
    "kind",
    "phase",
    "type",
    "code",
    "place",
    "message",
    "hour",
    "day",
    "week",
    "total",
    "first_at",
    "last_at",
    "sample",
)


@click.group()
def failures() -> None:
    """Group failed jobs by their cause, and retry them."""


@failures.command()
@click.option("--kind", metavar="KIND", help="Only jobs of this kind.")
@click.option("--phase", metavar="PHASE", help="Only jobs that failed in this phase.")
@watch_option
@service_options
@output_option
def ls(kind: str | None, phase: str | None, watch: bool, database: Chosen, output: str) -> None:
    """List failed jobs by kind, phase, type and place of the error, the latest first.

    The columns count failures of the last hour, day and week, and all that were searched. `sample` is the id of one of the jobs.
    """
    with control(database) as service:

        def draw() -> None:
            found = service.failures.list(kind=kind, phase=phase)
            show([asdict(group) for group in found.groups], COLUMNS if output == "table" else FIELDS, output)
            if found.more:
                say(f"the newest {found.searched:,} failed jobs were searched; there are more")

        repeated(watch, draw)


@failures.command()
@click.argument("kind", required=False)
@click.option("--phase", metavar="PHASE", help="Only jobs that failed in this phase.")
@click.option("--type", "type_", metavar="EXCEPTION", help="Only jobs that failed with this exception.")
@click.option("--all", "is_all", is_flag=True, help="All failed jobs; needed where nothing else is given.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say how many jobs it would be.")
@reason_option
@yes_option
@service_options
@output_option
def retry(
    kind: str | None,
    phase: str | None,
    type_: str | None,
    is_all: bool,
    is_dry_run: bool,
    reason: str | None,
    yes: bool,
    database: Chosen,
    output: str,
) -> int:
    """Retry failed jobs of KIND, of a phase or of an exception, as one operation."""
    chosen: dict[str, Any] = {"kind": kind, "phase": phase, "exception": type_}
    if not is_all and not any(chosen.values()):
        raise click.UsageError("give a kind, --phase, --type, or --all for all failed jobs")
    from windlass.control.filters.filter import Filter
    from windlass.control.filters.terms import Term, Word
    from windlass.model import State

    terms = [Term(key, (Word(text),)) for key, text in chosen.items() if text]
    only = Filter((Term("state", (State.FAILED,)), *terms))
    with control(database) as service:
        return act_on_many(
            service, "retry", str(only), reason, is_dry_run=is_dry_run, is_sure=yes, output=output
        )
