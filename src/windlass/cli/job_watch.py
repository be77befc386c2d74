"""``windlass jobs watch``, and the waiting of ``windlass submit --wait``: lines of progress until jobs have ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TextIO

import click

from windlass.cli.completion import complete_jobs
from windlass.cli.control import control, span
from windlass.cli.database import Chosen, service_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.job_records import FIELDS, done_of, error_of, record_of
from windlass.cli.output import json_line
from windlass.cli.terminal import LiveLines

if TYPE_CHECKING:
    from windlass.control.service import Control
    from windlass.model import Job

EVERY = 0.5
"""Seconds between two readings."""
WHY_EVERY = 2.0
"""Seconds between two questions why a job is not running."""
CELLS = 20

timeout_option = click.option(
    "--timeout",
    type=Duration(),
    metavar="DURATION",
    help="Wait for so long at most, for example 5m; then end with 124.",
)


@click.command()
@click.argument("job_ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_jobs)
@timeout_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "jsonl")),
    default="table",
    show_default=True,
    help="jsonl: the whole job as a line of JSON at each change.",
)
@service_options
def watch(job_ids: Sequence[str], timeout: timedelta | None, output: str, database: Chosen) -> int:
    """Follow jobs until all have ended: bars on a terminal, elsewhere a line for each change.

    The exit code is 0 if all completed, 1 if one failed or was cancelled, 124 if --timeout ran out before.
    """
    with control(database) as service:
        ended = followed(service, list(dict.fromkeys(job_ids)), timeout, sys.stdout, output)
    return outcome(ended)


def outcome(ended: Iterable[Job] | None) -> int:
    """The exit code of jobs that were waited for; None: the wait ran out."""
    if ended is None:
        return ExitCode.WAIT_RAN_OUT
    is_good = all(job.state == "completed" for job in ended)
    return ExitCode.DONE if is_good else ExitCode.ENDED_BADLY


def followed(
    service: Control,
    job_ids: Sequence[str],
    timeout: timedelta | None,
    stream: TextIO,
    output: str = "table",
) -> Sequence[Job] | None:
    """Wait until jobs have ended, with lines of progress; returns the jobs, None if the wait ran out."""
    is_json = output == "jsonl"
    lines = LiveLines(stream, replaces=not is_json)
    ends_at = None if timeout is None else time.monotonic() + timeout.total_seconds()
    whys: dict[str, str] = {}
    asked_at = float("-inf")
    found: dict[str, Job] = {}
    while True:
        for job_id in job_ids:
            if job_id not in found or not found[job_id].state.is_final:
                found[job_id] = service.jobs.get(job_id)
        waiting = [job for job in found.values() if not job.state.is_final]
        if not is_json and time.monotonic() >= asked_at + WHY_EVERY:
            whys = {job.id: _why(service, job) for job in waiting}
            asked_at = time.monotonic()
        lines.show(
            [
                json_line(record_of(job), FIELDS)
                if is_json
                else line(job, whys.get(job.id, ""), is_live=lines.is_live)
                for job in found.values()
            ]
        )
        if not waiting:
            return list(found.values())
        if ends_at is not None and time.monotonic() >= ends_at:
            say(
                f"not ended after {span(timeout.total_seconds())}: {len(waiting)} of {len(found)}"
                if timeout
                else ""
            )
            return None
        time.sleep(EVERY)


def line(job: Job, why: str, *, is_live: bool) -> str:
    """A job in one line. Off a terminal it has no bar and no speed, so that it changes only with the job."""
    parts = [job.id, job.phase, str(job.state)]
    progress = job.progress
    if progress is not None:
        if is_live and progress.percent is not None:
            parts.append(_bar(progress.percent))
        parts.append(done_of(job) or "")
        if is_live and progress.seconds_left is not None and not job.state.is_final:
            parts.append(f"{span(progress.seconds_left)} left")
    if job.state.is_final:
        parts.append(error_of(job.error) or "")
    elif job.state != "processing" and (is_live or job.error is None):
        parts.append(why)
    return "  ".join(part for part in parts if part)


def _bar(percent: float) -> str:
    filled = int(CELLS * min(100.0, percent) / 100)
    return f"[{'#' * filled}{'.' * (CELLS - filled)}]"


def _why(service: Control, job: Job) -> str:
    return "" if job.state == "processing" else str(service.jobs.why(job.id).sentence)
