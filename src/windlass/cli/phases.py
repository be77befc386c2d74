"""``windlass phases``: list, pause and resume phases."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.completion import complete_phases
from windlass.cli.control import control, reason_option, span
from windlass.cli.database import Chosen, service_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.control.service import Control
    from windlass.model import PhasePause

STATES = ("waiting", "scheduled", "queued", "processing", "completed", "failed", "cancelled")
COLUMNS = ("phase", *STATES, "oldest", "paused")
FIELDS = ("phase", *STATES, "oldest_seconds", "is_paused", "paused_until", "pause_reason")


@click.group()
def phases() -> None:
    """List, pause and resume phases."""


@phases.command()
@watch_option
@service_options
@output_option
def ls(watch: bool, database: Chosen, output: str) -> None:
    """List all phases: their jobs by state, how long the oldest queued job has been ready, and whether they are paused."""
    with control(database) as service:
        repeated(watch, lambda: show(_records(service), COLUMNS if output == "table" else FIELDS, output))


@phases.command()
@click.argument("phase", shell_complete=complete_phases)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is shown to operators and audited.")
@click.option(
    "--for",
    "lasts",
    type=Duration(),
    metavar="DURATION",
    help="How long, for example 15m; without it until it is resumed.",
)
@service_options
def pause(phase: str, reason: str, lasts: timedelta | None, database: Chosen) -> None:
    """Stop claims of a phase on every instance. Running jobs continue."""
    with control(database) as service:
        service.phases.pause(phase, reason, lasts=lasts)
    say(f"{phase} is paused" + ("" if lasts is None else f" for {span(lasts.total_seconds())}"))


@phases.command()
@click.argument("phase", shell_complete=complete_phases)
@reason_option
@service_options
def resume(phase: str, reason: str | None, database: Chosen) -> None:
    """Serve a paused phase again."""
    with control(database) as service:
        was_paused = service.phases.resume(phase, reason)
    say(f"{phase} is resumed" if was_paused else f"{phase} was not paused")


def _records(service: Control) -> list[dict[str, Any]]:
    counts, oldest = service.phases.counts(), service.phases.oldest()
    paused = {pause.phase: pause for pause in service.phases.paused()}
    records = []
    for name in service.phases.names():
        pause = paused.get(name)
        counted = counts.get(name)
        records.append(
            {
                "phase": name,
                **{state: getattr(counted, state, 0) for state in STATES},
                "oldest": span(oldest[name]) if counted and counted.queued else None,
                "paused": None if pause is None else _words(pause),
                "oldest_seconds": round(oldest.get(name, 0.0), 1),
                "is_paused": pause is not None,
                "paused_until": None if pause is None else pause.until,
                "pause_reason": None if pause is None else pause.reason,
            }
        )
    return records


def _words(pause: PhasePause) -> str:
    until = (
        "until it is resumed" if pause.until is None else f"until {pause.until.isoformat(timespec='seconds')}"
    )
    return f"{until}: {pause.reason}"
