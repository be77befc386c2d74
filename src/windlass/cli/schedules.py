"""``windlass schedules``: list, pause, resume, run and remove schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.completion import complete_schedules
from windlass.cli.control import control, reason_option
from windlass.cli.database import Chosen, service_options
from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show, show_fields
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.control.service import Control
    from windlass.model import Schedule, Tick

F = TypeVar("F", bound=Callable[..., Any])
FIELDS = (
    *("name", "kind", "phase", "expression", "tz", "state", "next_at", "last_at", "last_job", "paused_at"),
    *("pause_reason", "gone_at", "missed", "cap", "skipped", "jitter_seconds", "priority", "max_attempts"),
    *("correlation_id", "due_as", "args", "source", "generation", "created_at", "updated_at"),
    *("every_seconds", "expires_seconds"),
)
COLUMNS = ("name", "kind", "expression", "tz", "state", "next_at", "last_at", "skipped")


_name = click.argument("name", shell_complete=complete_schedules)


def _count_option(name: str, default: int) -> Callable[[F], F]:
    return click.option(
        name,
        "count",
        type=click.IntRange(0, 1000),
        default=default,
        show_default=True,
        metavar="N",
        help="How many due times to show, in the schedule's time zone.",
    )


@click.group()
def schedules() -> None:
    """List, pause, resume, run and remove schedules.

    Schedules are defined in code (@app.cron, app.schedule). A worker writes them to the database when it starts.
    """


@schedules.command()
@watch_option
@service_options
@output_option
def ls(watch: bool, database: Chosen, output: str) -> None:
    """List all schedules.

    The state is active, paused (by an operator) or gone (from the code that defined it). `skipped` counts due times that got
    no job of their own. Times are UTC.
    """
    with control(database) as service:
        repeated(watch, lambda: show([_record(item) for item in service.schedules.list()], COLUMNS, output))


@schedules.command("show")
@_name
@_count_option("--next", 5)
@service_options
@output_option
def show_one(name: str, count: int, database: Chosen, output: str) -> None:
    """Show one schedule: its definition, the next due times and the last ticks."""
    with control(database) as service:
        found = service.schedules.get(name)
        ticks = service.schedules.ticks(name, 5)
        record = {**_record(found), "next": _coming(service, found, count)}
    if output == "table":
        record["ticks"] = [_tick(tick) for tick in ticks]
    else:
        record["ticks"] = [
            {"at": tick.at.isoformat(), "job": tick.job_id, "covers": tick.covers} for tick in ticks
        ]
    show_fields(record, output)


@schedules.command("next")
@_name
@_count_option("--count", 10)
@service_options
@output_option
def next_times(name: str, count: int, database: Chosen, output: str) -> None:
    """List the next due times of a schedule, in its time zone; none while it does not fire."""
    with control(database) as service:
        coming = _coming(service, service.schedules.get(name), count)
    show([{"at": at} for at in coming], ("at",), output)


@schedules.command()
@_name
@click.option(
    "--reason",
    default="paused from the command line",
    show_default=True,
    metavar="TEXT",
    help="Why; it is shown to operators and written to the audit trail.",
)
@service_options
def pause(name: str, reason: str, database: Chosen) -> None:
    """Pause a schedule until it is resumed.

    Existing jobs continue. Due times during the pause create no jobs.
    """
    with control(database) as service:
        service.schedules.pause(name, reason)
    say(f"{name} is paused")


@schedules.command()
@_name
@reason_option
@service_options
def resume(name: str, reason: str | None, database: Chosen) -> None:
    """Resume a paused schedule from its next due time on."""
    with control(database) as service:
        was_paused = service.schedules.resume(name, reason)
        found = service.schedules.get(name)
    if not was_paused:
        say(f"{name} was not paused")
    elif found.next_at is None:
        say(f"{name} is resumed, and fires when a worker whose code defines it starts")
    else:
        say(f"{name} is resumed; next at {found.next_at.isoformat()}")


@schedules.command()
@_name
@reason_option
@service_options
@output_option
def run(name: str, reason: str | None, database: Chosen, output: str) -> None:
    """Create one job of a schedule now and print the job's id.

    This works for a paused schedule, too. The due times do not change.
    """
    with control(database) as service:
        made = service.schedules.run_now(name, reason)
    show([{"job": made.id}], ("job",), output)


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_schedules)
@reason_option
@service_options
def rm(names: Sequence[str], reason: str | None, database: Chosen) -> None:
    """Remove schedules. Their jobs stay.

    A schedule that code defines comes back when a worker with that code starts. To stop it permanently, pause it or remove the
    code.
    """
    with control(database) as service:
        found = [service.schedules.get(name) for name in names]
        for item in found:
            service.schedules.remove(item.name, reason)
            back = item.source != "api" and item.state != "gone"
            say(f"{item.name} is removed" + (f"; it comes back with {item.source}" if back else ""))


def _record(schedule: Schedule) -> dict[str, Any]:
    """All fields of a schedule."""
    return {name: _field(schedule, name) for name in FIELDS}


def _field(schedule: Schedule, name: str) -> Any:
    span = getattr(schedule, name.removesuffix("_seconds"))
    return span.total_seconds() if name.endswith("_seconds") and span is not None else span


def _coming(service: Control, schedule: Schedule, count: int) -> list[str]:
    """The next due times in the schedule's time zone."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(schedule.tz)
    return [at.astimezone(zone).isoformat() for at in service.schedules.next_times(schedule.name, count)]


def _tick(tick: Tick) -> str:
    return f"{tick.at.isoformat()}  {tick.job_id}" + (
        f"  stands for {tick.covers}" if tick.covers > 1 else ""
    )
