"""``windlass jobs logs``: the lines that the handlers of a job logged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.completion import complete_jobs
from windlass.cli.control import control
from windlass.cli.database import Chosen, service_options
from windlass.cli.output import output_option, show, stream
from windlass.observe.safe_text import escaped

if TYPE_CHECKING:
    from windlass.control.service import Control

EVERY = 0.5
LATE = 1.5
"""Seconds after the end of a job in which its last lines may still be stored."""
COLUMNS = ("at", "phase", "attempt", "level", "logger", "message")


@click.command()
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@click.option("-f", "--follow", is_flag=True, help="Wait for further lines until the job has ended.")
@service_options
@output_option
def logs(job_id: str, follow: bool, database: Chosen, output: str) -> None:
    """Print what the handlers of a job logged, attempt by attempt.

    The last 64 kB of lines of each attempt are kept. Lines of a running job are about a second old.
    """
    with control(database) as service:
        lines = _lines(service, job_id, follow)
        match output:
            case "table":
                for item in lines:
                    when = item["at"].isoformat(timespec="milliseconds")
                    where = f"{item['phase']} {item['attempt']}"
                    click.echo(f"{when}  {where}  {item['level']}  {escaped(item['message'])}")
            case "json":
                show(list(lines), COLUMNS, output)
            case _:
                stream(lines, COLUMNS, output)


def _lines(service: Control, job_id: str, follow: bool) -> Iterator[dict[str, Any]]:
    """The lines of a job; with ``follow`` also those that come until it has ended."""
    seen: dict[int, int] = {}
    was_over = False
    while True:
        is_over = service.jobs.get(job_id).state.is_final
        for place, log in enumerate(service.jobs.logs(job_id)):
            for line in log.lines[seen.get(place, 0) :]:
                yield {
                    "at": line.at,
                    "phase": log.phase,
                    "attempt": log.attempt,
                    "level": line.level,
                    "logger": line.logger,
                    "message": line.message,
                }
            seen[place] = len(log.lines)
        if not follow or (is_over and was_over):
            return
        was_over = is_over
        time.sleep(LATE if is_over else EVERY)
