"""``windlass jobs cancel | retry | delete | run``: acts on jobs by id, or on all jobs of a filter as an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.bulk import act_on_many
from windlass.cli.completion import complete_jobs
from windlass.cli.control import confirm, control, reason_option, yes_option
from windlass.cli.database import Chosen as ChosenPlace
from windlass.cli.database import service_options
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show

if TYPE_CHECKING:
    from windlass.control.service import Control

F = TypeVar("F", bound=Callable[..., Any])
REASON = "from the command line"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which jobs a command acts on, and how."""

    ids: Sequence[str]
    only: str | None
    is_all: bool
    is_dry_run: bool
    is_detached: bool
    reason: str | None
    is_sure: bool
    database: ChosenPlace
    output: str


def _act(function: F) -> F:
    """The parameters of acts on jobs."""
    options = (
        click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=complete_jobs),
        click.option(
            "--where", "only", metavar="FILTER", help="All jobs that meet this filter, as one operation."
        ),
        click.option("--all", "is_all", is_flag=True, help="All jobs; needed where no filter is given."),
        click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say how many jobs it would be."),
        click.option(
            "--detach",
            "is_detached",
            is_flag=True,
            help="Begin the operation and return; workers do it in the background.",
        ),
        reason_option,
        yes_option,
        service_options,
        output_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def _chosen(options: dict[str, Any]) -> Chosen:
    chosen = Chosen(
        ids=list(dict.fromkeys(options["ids"])),
        only=options["only"],
        is_all=options["is_all"],
        is_dry_run=options["is_dry_run"],
        is_detached=options["is_detached"],
        reason=options["reason"],
        is_sure=options["yes"],
        database=options["database"],
        output=options["output"],
    )
    if bool(chosen.ids) == (chosen.only is not None or chosen.is_all):
        raise click.UsageError("give ids of jobs, --where FILTER or --all, one of the three")
    if chosen.only is not None and not chosen.only.strip() and not chosen.is_all:
        raise click.UsageError("an empty filter is refused; for all jobs give --all")
    return chosen


@click.command()
@_act
def cancel(**options: Any) -> int:
    """Cancel jobs: at once where no instance holds them; else the handler is asked to stop."""
    chosen = _chosen(options)
    reason = chosen.reason or f"cancelled {REASON}"
    return _run("cancel", chosen, reason, lambda service, job: str(service.jobs.cancel(job, reason)))


@click.command()
@_act
@click.option(
    "--dependents", is_flag=True, help="Also the jobs that were cancelled because of it wait again."
)
def retry(dependents: bool, **options: Any) -> int:
    """Run ended jobs again, their history kept."""
    chosen = _chosen(options)

    def act(service: Control, job: str) -> str:
        return str(service.jobs.retry(job, chosen.reason, dependents=dependents).state)

    return _run("retry", chosen, chosen.reason, act, {"dependents": True} if dependents else None)


@click.command()
@_act
def delete(**options: Any) -> int:
    """Delete ended jobs with all that is kept of them. This cannot be undone."""
    chosen = _chosen(options)
    reason = chosen.reason or f"deleted {REASON}"

    def act(service: Control, job: str) -> str:
        service.jobs.delete(job, reason)
        return "deleted"

    return _run("delete", chosen, reason, act)


@click.command()
@_act
def run(**options: Any) -> int:
    """Make jobs due now that are scheduled for later or wait for their next attempt."""
    chosen = _chosen(options)
    return _run(
        "run_now",
        chosen,
        chosen.reason,
        lambda service, job: str(service.jobs.run_now(job, chosen.reason).state),
    )


def _run(
    act: str,
    chosen: Chosen,
    reason: str | None,
    one: Callable[[Control, str], str],
    options: dict[str, Any] | None = None,
) -> int:
    with control(chosen.database) as service:
        if not chosen.ids:
            return act_on_many(
                service,
                act,
                chosen.only or "",
                reason,
                options=options,
                is_all=chosen.is_all,
                is_dry_run=chosen.is_dry_run,
                is_detached=chosen.is_detached,
                is_sure=chosen.is_sure,
                output=chosen.output,
            )
        return _each(service, act, chosen, one)


def _each(service: Control, act: str, chosen: Chosen, one: Callable[[Control, str], str]) -> int:
    """Act on jobs by their ids. A single refusal is the error of the command; of several jobs, refusals are listed, and the exit code is 1."""
    from windlass.errors import WindlassError

    count = f"{len(chosen.ids)} job{'' if len(chosen.ids) == 1 else 's'}"
    if chosen.is_dry_run:
        found = [service.jobs.get(job) for job in chosen.ids]
        show(
            [{"id": job.id, "kind": job.kind, "state": str(job.state)} for job in found],
            ("id", "kind", "state"),
            chosen.output,
        )
        say(f"dry run, nothing is changed: {act.replace('_', ' ')} {count}")
        return ExitCode.DONE
    if act == "delete":
        confirm(f"Delete {count}? This cannot be undone.", yes=chosen.is_sure)
    records, refused = [], 0
    for job in chosen.ids:
        try:
            result = one(service, job)
        except WindlassError as error:
            if len(chosen.ids) == 1 or error.code.startswith("store"):
                raise
            refused += 1
            result = f"refused: {error.message}"
        records.append({"id": job, "result": result})
    show(records, ("id", "result"), chosen.output)
    return ExitCode.ENDED_BADLY if refused else ExitCode.DONE
