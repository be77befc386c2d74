"""``windlass jobs``: find, show, follow and change jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.completion import complete_jobs
from windlass.cli.control import control
from windlass.cli.database import Chosen, service_options
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.filters import FilterCommand, filter_argument
from windlass.cli.job_acts import cancel, delete, retry, run
from windlass.cli.job_edit import edit
from windlass.cli.job_logs import logs
from windlass.cli.job_records import COLUMNS, FIELDS, done_of, error_of, record_of, row_of
from windlass.cli.job_stack import stack
from windlass.cli.job_watch import watch
from windlass.cli.output import output_option, show, show_fields, stream
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.control.why.codes import Why
    from windlass.model import Span


@click.group()
def jobs() -> None:
    """Find, show, follow and change jobs.

    FILTER is one text or several words, such as: state:failed kind:report* age:<1h -phase:parse args.user:42. Jobs must meet
    all terms.
    """


jobs.add_command(watch)
jobs.add_command(cancel)
jobs.add_command(retry)
jobs.add_command(delete)
jobs.add_command(run)
jobs.add_command(edit)
jobs.add_command(logs)
jobs.add_command(stack)


@jobs.command(cls=FilterCommand)
@filter_argument
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many, newest first."
)
@click.option("--cursor", metavar="ID", help="Continue behind this job, which the page before named.")
@watch_option
@service_options
@output_option
def ls(only: str, limit: int, cursor: str | None, watch: bool, database: Chosen, output: str) -> None:
    """List jobs that meet FILTER, newest first.

    A filter that no index serves is searched for in the newest 100,000 jobs; a message then names the cursor to continue with.
    """
    with control(database) as service:

        def draw() -> None:
            from windlass.control.why.texts import many

            page = service.jobs.list(only, cursor=cursor, limit=limit)
            if output == "table":
                show([row_of(job) for job in page.jobs], COLUMNS, output)
            else:
                show([record_of(job) for job in page.jobs], FIELDS, output)
            if page.next_cursor is not None:
                say(
                    f"{many(len(page.jobs))}, {page.searched:,} searched; there may be more: --cursor {page.next_cursor}"
                )

        repeated(watch, draw)


@jobs.command("show")
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@service_options
@output_option
def show_one(job_id: str, database: Chosen, output: str) -> None:
    """Show all facts of one job: arguments, result or error, attempts, outputs, and why it is not running."""
    with control(database) as service:
        job = service.jobs.get(job_id)
        attempts = [_attempt(item) for item in service.jobs.timeline(job_id)]
        why = service.jobs.why(job_id)
    record: dict[str, Any] = {**record_of(job), "traceback": job.traceback}
    record["outputs"] = [
        {"phase": item.phase, "name": item.name, "value": item.value} for item in job.outputs
    ]
    record["why"] = _reason(why) if output != "table" else str(why)
    record["attempts"] = attempts
    if output == "table":
        record["error"] = error_of(job.error)
        record["progress"] = done_of(job)
        record["traceback"] = (job.traceback or "").rstrip().split("\n") if job.traceback else None
        record["attempts"] = [_line(item) for item in attempts]
    show_fields(record, output)


@jobs.command()
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@service_options
@output_option
def why(job_id: str, database: Chosen, output: str) -> int:
    """Say why a job is not running, and what happens next."""
    from windlass.errors import JobNotFoundError

    with control(database) as service:
        found = service.jobs.why(job_id)
    if found.code == "unknown":
        raise JobNotFoundError(job_id)
    if output == "table":
        for item in (found, *found.also):
            show_fields({str(item.code): item.sentence}, output)
    else:
        record = {"id": job_id, **_reason(found)}
        show([record], tuple(record), output)
    return ExitCode.DONE


@jobs.command(cls=FilterCommand)
@filter_argument
@click.option(
    "-o",
    "--output",
    type=click.Choice(["csv", "jsonl"]),
    default="jsonl",
    show_default=True,
    help="Output format.",
)
@service_options
def export(only: str, output: str, database: Chosen) -> None:
    """Print all jobs that meet FILTER, newest first, however many there are.

    Jobs are printed while they are read. Secrets in arguments, results and errors are hidden.
    """
    with control(database) as service:
        count = stream((record_of(job) for job in service.jobs.iterate(only)), FIELDS, output)
    say(f"{count:,} jobs")


def _reason(why: Why) -> dict[str, Any]:
    found: dict[str, Any] = {"code": str(why.code), "sentence": why.sentence, "details": dict(why.details)}
    found["also"] = [_reason(item) for item in why.also]
    return found


def _attempt(span: Span) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "generation": span.generation,
        "attempt": span.attempt,
        "outcome": span.outcome,
        "instance": span.instance,
        "processor": span.processor,
        "started_at": span.started_at.isoformat(),
        "ended_at": None if span.ended_at is None else span.ended_at.isoformat(),
        "seconds": None if span.ran is None else span.ran.total_seconds(),
        "error": None if span.error is None else dict(span.error),
    }


def _line(attempt: dict[str, Any]) -> str:
    """An attempt in one line."""
    ran = "" if attempt["seconds"] is None else f" after {attempt['seconds']:.2f} s"
    error = f": {error_of(attempt['error'])}" if attempt["error"] else ""
    return (
        f"{attempt['started_at']}  {attempt['phase']} {attempt['attempt']}  {attempt['outcome']}{ran}{error}"
    )
