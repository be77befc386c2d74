"""``windlass jobs stack``: where the handler of a running job is."""

from __future__ import annotations

from datetime import timedelta

import click

from windlass.cli.completion import complete_jobs
from windlass.cli.control import control, reason_option
from windlass.cli.database import Chosen, service_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import say


@click.command()
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@click.option(
    "--timeout",
    type=Duration(),
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for the instance.",
)
@reason_option
@service_options
def stack(job_id: str, timeout: timedelta, reason: str | None, database: Chosen) -> None:
    """Print the stack of the handler of a running job, the innermost frame last: lines of code, no values.

    The instance that runs the job reads it. The act is written to the audit trail.
    """
    with control(database) as service:
        found = service.jobs.stack(job_id, reason, timeout=timeout.total_seconds())
    click.echo(found.text.rstrip("\n"))
    say(f"job {found.job} in phase {found.phase}, on instance {found.instance}")
