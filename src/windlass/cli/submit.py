"""``windlass submit``: submit a job of an app, and wait for it if asked to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.arguments import arguments_of
from windlass.cli.completion import complete_jobs, complete_kinds
from windlass.cli.control import app_of, control
from windlass.cli.database import Chosen, ChosenServer, service_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_records import record_of
from windlass.cli.job_watch import followed, outcome, timeout_option
from windlass.cli.output import output_option, show

if TYPE_CHECKING:
    from windlass.submit.options import JobOptions

COLUMNS = ("id", "kind", "state", "created")
ENDED = ("id", "kind", "state", "result", "error")


@click.command()
@click.argument("kind", shell_complete=complete_kinds)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE|@FILE|-]...")
@click.option(
    "--key", metavar="KEY", help="A unique key: while a job with this key is alive, that job is returned."
)
@click.option(
    "--delay", type=Duration(), metavar="DURATION", help="How long until the job is due, for example 15m."
)
@click.option("--priority", type=click.IntRange(0, 9), help="9 is served first. [5]")
@click.option(
    "--after",
    multiple=True,
    metavar="ID",
    shell_complete=complete_jobs,
    help="Run after this job has completed (repeatable).",
)
@click.option("--wait", is_flag=True, help="Wait for the end of the job; the exit code is its outcome.")
@timeout_option
@service_options
@output_option
def submit(
    kind: str,
    arguments: Sequence[str],
    key: str | None,
    delay: timedelta | None,
    priority: int | None,
    after: Sequence[str],
    wait: bool,
    timeout: timedelta | None,
    database: Chosen,
    output: str,
) -> int:
    """Submit a job of KIND, which --app or the server defines.

    Arguments are NAME=VALUE (JSON, or else a text), @FILE or - (a JSON object in a file or on stdin), validated by the
    signature of the handler. With --wait the exit code is 0 if the job completed, 1 if it failed or was cancelled, and 124
    if --timeout ran out.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    app = None if isinstance(database, ChosenServer) else app_of(database, "a kind is defined by an app")
    known = None if app is None else app.parts.registry.kind(kind)
    if app is not None and known is None:
        raise app.parts.registry.unknown(kind)
    values = arguments_of(arguments, known)
    options: JobOptions = {}
    if key is not None:
        options["key"] = key
    if delay is not None:
        options["delay"] = delay
    if priority is not None:
        options["priority"] = priority
    if after:
        options["after"] = list(after)
    with control(database) as service:
        made: Any = (
            service.submit(kind, values, **options)  # type: ignore[attr-defined]
            if app is None
            else app.kind(kind).options(**options).enqueue(**values)
        )
        if not wait:
            record: dict[str, Any] = {**record_of(service.jobs.get(made.id)), "created": made.created}
            show([record], COLUMNS, output)
            return ExitCode.DONE
        ended = followed(service, [made.id], timeout, sys.stderr)
        show([record_of(service.jobs.get(made.id))], ENDED, output)
    return outcome(ended)
