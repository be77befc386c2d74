"""``windlass instances``: the workers that serve the database."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.completion import complete_instances, complete_phases
from windlass.cli.control import confirm, control, reason_option, yes_option
from windlass.cli.database import Chosen, service_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_watch import timeout_option
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.control.instances import InstanceView
    from windlass.control.service import Control
    from windlass.operations.request import InstanceRequest

COLUMNS = ("id", "host", "pid", "state", "busy", "processors", "started_at", "heartbeat_at", "serves")
FIELDS = (
    "id",
    "host",
    "pid",
    "state",
    "started_at",
    "heartbeat_at",
    "lease_seconds",
    "phases",
    "running",
    "degraded",
    "read_at",
)
REQUEST_COLUMNS = ("id", "instance", "act", "phase", "number", "state", "outcome")
REASON = "Why; it is written to the audit trail."

_instance = click.argument("instance", metavar="ID", shell_complete=complete_instances)
wait_option = click.option("--wait", is_flag=True, help="Wait until the instance has done it.")


@click.group()
def instances() -> None:
    """Show, drain and change the instances that run jobs."""


@instances.command()
@watch_option
@service_options
@output_option
def ls(watch: bool, database: Chosen, output: str) -> None:
    """List instances, newest first: those that live, and those that died lately.

    The state is starting, running, stopping, lost (its lease ran out) or dead. Processors are as of the last heartbeat.
    """
    with control(database) as service:

        def draw() -> None:
            found = service.instances.list()
            if output == "table":
                show([_row(item) for item in found], COLUMNS, output)
            else:
                show([_record(item) for item in found], FIELDS, output)

        repeated(watch, draw)


@instances.command()
@_instance
@click.option(
    "--grace",
    type=Duration(),
    metavar="DURATION",
    help="How long running jobs have to finish; without it as long as they take.",
)
@click.option(
    "--reason", default="drained from the command line", show_default=True, metavar="TEXT", help=REASON
)
@wait_option
@timeout_option
@yes_option
@service_options
@output_option
def drain(
    instance: str,
    grace: timedelta | None,
    reason: str,
    wait: bool,
    timeout: timedelta | None,
    yes: bool,
    database: Chosen,
    output: str,
) -> int:
    """Have an instance claim nothing more, finish its running jobs, and stop; its worker process ends then."""
    with control(database) as service:
        running = sum(len(item.running) for item in service.instances.list() if item.id == instance)
        confirm(f"Drain instance {instance}, which runs {running} job{'' if running == 1 else 's'}?", yes=yes)
        seconds = None if grace is None else grace.total_seconds()
        request = service.instances.drain(instance, reason, grace=seconds)
        return _asked(service, request, wait, timeout, output)


@instances.command()
@_instance
@click.argument("phase", shell_complete=complete_phases)
@click.argument("count", type=int)
@reason_option
@wait_option
@timeout_option
@service_options
@output_option
def processors(
    instance: str,
    phase: str,
    count: int,
    reason: str | None,
    wait: bool,
    timeout: timedelta | None,
    database: Chosen,
    output: str,
) -> int:
    """Give a phase of an instance COUNT processors, until the instance starts again. Running jobs finish first."""
    with control(database) as service:
        request = service.instances.set_processors(instance, phase, count, reason)
        return _asked(service, request, wait, timeout, output)


def _asked(
    service: Control, request: InstanceRequest, wait: bool, timeout: timedelta | None, output: str
) -> int:
    """Show a request to an instance, and with ``wait`` its outcome."""
    if wait:
        request = service.instances.wait(request.id, None if timeout is None else timeout.total_seconds())
    show([{column: getattr(request, column) for column in REQUEST_COLUMNS}], REQUEST_COLUMNS, output)
    if not wait or request.state == "done":
        return ExitCode.DONE
    return ExitCode.ENDED_BADLY if request.state == "refused" else ExitCode.WAIT_RAN_OUT


def _row(item: InstanceView) -> dict[str, Any]:
    return {
        "id": item.id,
        "host": item.host,
        "pid": None if item.pid is None else str(item.pid),
        "state": item.state,
        "busy": sum(phase.busy for phase in item.phases),
        "processors": sum(phase.size for phase in item.phases),
        "started_at": item.started_at.isoformat(timespec="seconds"),
        "heartbeat_at": item.heartbeat_at.isoformat(timespec="seconds"),
        "serves": ", ".join(phase.name for phase in item.phases),
    }


def _record(item: InstanceView) -> dict[str, Any]:
    return {
        **{name: getattr(item, name) for name in FIELDS if hasattr(item, name)},
        "lease_seconds": item.lease.total_seconds(),
        "phases": [
            {
                "phase": phase.name,
                "processors": phase.size,
                "busy": phase.busy,
                "error": phase.error,
                "queue": phase.queue,
                "held_by": phase.held_by,
            }
            for phase in item.phases
        ],
        "running": [dict(one) for one in item.running],
        "degraded": [asdict(one) for one in item.degraded],
    }
