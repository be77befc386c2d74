"""``windlass pipelines``: the kinds of jobs that an app defines, their phases, and how many jobs each has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import click

from windlass.cli.completion import complete_kinds
from windlass.cli.control import app_of, control
from windlass.cli.database import Chosen, ChosenDatabase, service_options
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.control.service import Control
    from windlass.control.system_views import PhaseDefinition, PipelineView
    from windlass.model import Counts

STATES = ("queued", "processing", "completed", "failed")
COLUMNS = ("pipeline", "phases", *STATES)
PHASE_COLUMNS = ("phase", "processors", "attempts", "timeout", "executor", "max_waiting", *STATES)
_NEEDS_APP = "pipelines are defined by an app"


@click.group()
def pipelines() -> None:
    """Show the pipelines of an app. A kind with one phase is a pipeline of one."""


@pipelines.command()
@watch_option
@service_options
@output_option
def ls(watch: bool, database: Chosen, output: str) -> None:
    """List pipelines and their phases in order, with the jobs of all their phases."""
    with _service(database) as service:

        def draw() -> None:
            counts = service.phases.counts()
            show([_row(kind, counts) for kind in service.pipelines.list()], COLUMNS, output)

        repeated(watch, draw)


@pipelines.command("show")
@click.argument("name", shell_complete=complete_kinds)
@service_options
@output_option
def show_one(name: str, database: Chosen, output: str) -> None:
    """Show the phases of one pipeline: processors of an instance, attempts, time limit, and jobs."""
    with _service(database) as service:
        kind = service.pipelines.get(name)
        if kind is None:
            raise app_of(cast(ChosenDatabase, database), _NEEDS_APP).parts.registry.unknown(name)
        counts = service.phases.counts()
        show([_phase(phase, counts) for phase in kind.phases], PHASE_COLUMNS, output)


@contextmanager
def _service(database: Chosen) -> Iterator[Control]:
    """The control service of an app or of a server."""
    if isinstance(database, ChosenDatabase):
        app_of(database, _NEEDS_APP)
    with control(database) as service:
        yield service


def _row(kind: PipelineView, counts: Mapping[str, Counts]) -> dict[str, Any]:
    names = [phase.name for phase in kind.phases]
    found = [counts[name] for name in names if name in counts]
    return {
        "pipeline": kind.name,
        "phases": " > ".join(phase.label for phase in kind.phases),
        **{state: sum(getattr(one, state) for one in found) for state in STATES},
    }


def _phase(phase: PhaseDefinition, counts: Mapping[str, Counts]) -> dict[str, Any]:
    found = counts.get(phase.name)
    return {
        "phase": phase.name,
        "processors": phase.processors,
        "attempts": phase.attempts,
        "timeout": phase.timeout,
        "executor": phase.executor,
        "max_waiting": phase.max_waiting,
        **{state: getattr(found, state, 0) for state in STATES},
    }
