"""``windlass cron``: list, pause, resume, run and remove schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show
from windlass.cli.stores import existing_store
from windlass.cli.urls import url_option
from windlass.observe.safe_text import escaped

if TYPE_CHECKING:
    from windlass.model import Schedule

FIELDS = (
    *("name", "kind", "phase", "expression", "tz", "state", "next_at", "last_at", "last_job", "paused_at"),
    *("pause_reason", "gone_at", "missed", "cap", "skipped", "jitter_seconds", "priority", "max_attempts"),
    *("correlation_id", "due_as", "args", "source", "generation", "created_at", "updated_at"),
)
COLUMNS = ("name", "kind", "expression", "tz", "state", "next_at", "last_at", "skipped")


@click.group()
def cron() -> None:
    """List, pause, resume, run and remove schedules.

    Schedules are defined in code (@app.cron, app.schedule). A worker writes them to the database when it starts.
    """


@cron.command()
@url_option
@output_option
def ls(url: str, output: str) -> None:
    """List all schedules.

    The state is active, paused (by an operator) or gone (from the code that defined it). `skipped` counts due times that got
    no job of their own. Times are UTC.
    """
    with existing_store(url) as store:
        show([_record(item) for item in store.schedules.list()], COLUMNS, output)


@cron.command("show")
@click.argument("name")
@click.option(
    "--next",
    "coming",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    metavar="N",
    help="How many due times to show, in the schedule's time zone.",
)
@url_option
@output_option
def show_one(name: str, coming: int, url: str, output: str) -> None:
    """Show one schedule: its definition, the next due times and the last ticks."""
    with existing_store(url) as store:
        found = store.schedules.get(name)
        record = {
            **_record(found),
            "next": _coming(found, coming),
            "ticks": [
                {"at": tick.at.isoformat(), "job": tick.job_id, "covers": tick.covers}
                for tick in store.schedules.ticks(name, 5)
            ],
        }
    if output == "table":
        for line in _lines(record):
            click.echo(line)
    else:
        show([record], tuple(record), output)


@cron.command()
@click.argument("name")
@click.option(
    "--reason",
    default="paused from the command line",
    show_default=True,
    metavar="TEXT",
    help="Reason shown to operators.",
)
@url_option
def pause(name: str, reason: str, url: str) -> None:
    """Pause a schedule until it is resumed.

    Existing jobs continue. Due times during the pause create no jobs.
    """
    with existing_store(url) as store:
        store.schedules.pause(name, reason)
    say(f"{name} is paused")


@cron.command()
@click.argument("name")
@url_option
def resume(name: str, url: str) -> None:
    """Resume a paused schedule from its next due time on."""
    with existing_store(url) as store:
        was_paused = store.schedules.resume(name)
        found = store.schedules.get(name)
    if not was_paused:
        say(f"{name} was not paused")
    elif found.next_at is None:
        say(f"{name} is resumed, and fires when a worker whose code defines it starts")
    else:
        say(f"{name} is resumed; next at {found.next_at.isoformat()}")


@cron.command()
@click.argument("name")
@url_option
@output_option
def run(name: str, url: str, output: str) -> None:
    """Create one job of a schedule now and print the job's id.

    This works for a paused schedule, too. The due times do not change.
    """
    with existing_store(url) as store:
        made = store.schedules.run_now(name)
    show([{"job": made.id}], ("job",), output)


@cron.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@url_option
def rm(names: Sequence[str], url: str) -> None:
    """Remove schedules. Their jobs stay.

    A schedule that code defines comes back when a worker with that code starts. To stop it permanently, pause it or remove the
    code.
    """
    with existing_store(url) as store:
        found = [store.schedules.get(name) for name in names]
        for item in found:
            store.schedules.remove(item.name)
            back = item.source != "api" and item.state != "gone"
            say(f"{item.name} is removed" + (f"; it comes back with {item.source}" if back else ""))


def _record(schedule: Schedule) -> dict[str, Any]:
    """All fields of a schedule."""
    return {
        name: schedule.jitter.total_seconds() if name == "jitter_seconds" else getattr(schedule, name)
        for name in FIELDS
    }


def _coming(schedule: Schedule, count: int) -> list[str]:
    """The next due times; none while the schedule does not fire."""
    from zoneinfo import ZoneInfo

    from windlass.schedules.cron import parse

    if schedule.next_at is None:
        return []
    at, found, expression = schedule.next_at, [], parse(schedule.expression, schedule.tz)
    zone = ZoneInfo(schedule.tz)
    for _ in range(count):
        found.append(at.astimezone(zone).isoformat())
        at = expression.next_after(at)
    return found


def _lines(record: dict[str, Any]) -> Iterator[str]:
    """A record for people: one line for each field that is set."""
    width = max(map(len, record))
    for name, value in record.items():
        values = value if name in ("next", "ticks") else [value]
        for place, item in enumerate(item for item in values if item is not None):
            label = name if place == 0 else ""
            yield f"{label.ljust(width)}  {escaped(_text(item))}".rstrip()


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case {"at": at, "job": job, "covers": covers}:
            return f"{at}  {job}" + (f"  stands for {covers}" if covers > 1 else "")
        case dict() | list():
            import json

            return json.dumps(value, ensure_ascii=False)
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)
