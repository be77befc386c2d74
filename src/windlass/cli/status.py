"""``windlass status``: one screen of everything, and an exit code for monitors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.control import control, span
from windlass.cli.database import Chosen, service_options
from windlass.cli.exit_codes import ExitCode
from windlass.cli.output import output_option, show
from windlass.cli.terminal import painted
from windlass.cli.watching import repeated, watch_option
from windlass.observe.safe_text import escaped

if TYPE_CHECKING:
    from windlass.control.overview import Overview, PhaseStatus

COLUMNS = ("phase", "queued", "busy", "oldest", "waiting", "scheduled", "failed", "why_waiting")


@click.command()
@watch_option
@service_options
@output_option
def status(watch: bool, database: Chosen, output: str) -> int:
    """Show all phases on one screen: queued jobs, busy processors, the oldest queued job, and why jobs wait.

    The exit code is 0 if all is well, 1 if something is wrong (jobs that no instance serves, an instance that is lost), and
    69 if the database cannot be reached.
    """
    codes: list[int] = []
    with control(database) as service:

        def draw() -> None:
            found = service.overview.read()
            codes.append(ExitCode.ENDED_BADLY if found.problems else ExitCode.DONE)
            if output == "table":
                _screen(found)
            else:
                record = _record(found)
                show([record], tuple(record), output)

        repeated(watch, draw)
    return codes[-1]


def _screen(found: Overview) -> None:
    alive = sum(item.is_alive for item in found.instances)
    queued = sum(phase.counts.queued for phase in found.phases)
    running = sum(phase.counts.processing for phase in found.phases)
    health = painted("degraded", "red") if found.problems else painted("good", "green")
    click.echo(
        f"{health}  {queued:,} queued  {running:,} processing  {alive} instance{'' if alive == 1 else 's'} alive"
    )
    for problem in found.problems:
        click.echo(f"! {escaped(problem)}")
    if not found.phases:
        click.echo("no phase had a job yet; `windlass submit` or `enqueue` stores the first one")
        return
    click.echo()
    show([_row(phase) for phase in found.phases], COLUMNS, "table")


def _row(phase: PhaseStatus) -> dict[str, Any]:
    counts = phase.counts
    return {
        "phase": phase.name,
        "queued": counts.queued,
        "busy": f"{phase.busy}/{phase.processors}",
        "oldest": span(phase.oldest) if counts.queued else None,
        "waiting": counts.waiting,
        "scheduled": counts.scheduled,
        "failed": counts.failed,
        "why_waiting": phase.waits or None,
    }


def _record(found: Overview) -> dict[str, Any]:
    return {
        "status": "degraded" if found.problems else "good",
        "problems": list(found.problems),
        "instances": sum(item.is_alive for item in found.instances),
        "phases": [
            {
                "phase": phase.name,
                **{name: getattr(phase.counts, name) for name in phase.counts.__slots__},
                "oldest_seconds": round(phase.oldest, 1),
                "busy": phase.busy,
                "processors": phase.processors,
                "instances": phase.instances,
                "why_waiting": phase.waits or None,
            }
            for phase in found.phases
        ],
    }
