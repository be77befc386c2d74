"""``windlass jobs edit``: change arguments and priority of a job that has not begun."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.arguments import arguments_of
from windlass.cli.completion import complete_jobs
from windlass.cli.control import app_of, control, reason_option
from windlass.cli.database import Chosen, ChosenServer, service_options
from windlass.cli.exit_codes import say
from windlass.cli.job_records import record_of
from windlass.cli.output import output_option, show


@click.command()
@click.argument("job_id", metavar="ID", shell_complete=complete_jobs)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE|@FILE|-]...")
@click.option("--priority", type=click.IntRange(0, 9), help="The new priority; 9 is served first.")
@click.option(
    "--if-version",
    "version",
    metavar="VERSION",
    help="Refuse the change unless the job has this version, which `jobs show` prints.",
)
@reason_option
@service_options
@output_option
def edit(
    job_id: str,
    arguments: Sequence[str],
    priority: int | None,
    version: str | None,
    reason: str | None,
    database: Chosen,
    output: str,
) -> None:
    """Change arguments (by name; others stay) or the priority of a job that has not begun.

    Arguments need --app: they are validated by the signature of the handler. If the job was changed since it was read, the
    exit code is 4 and nothing is changed.
    """
    if not arguments and priority is None:
        raise click.UsageError("give arguments to change (NAME=VALUE), --priority, or both")
    with control(database) as service:
        job = service.jobs.get(job_id)
        changes = None
        if arguments:
            kind = None
            if not isinstance(database, ChosenServer):
                app = app_of(database, "arguments are validated by the handler")
                kind = app.parts.registry.kind(job.kind)
            changes = arguments_of(arguments, kind)
        after = service.jobs.edit(
            job_id, version=version or job.version, arguments=changes, priority=priority, reason=reason
        )
        shown = record_of(service.jobs.get(after.id))
    columns = ("id", "kind", "state", "priority", "args", "version")
    show([shown], columns, output)
    say(f"{job_id} is changed")
