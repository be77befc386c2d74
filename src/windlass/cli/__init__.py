"""The command ``windlass``: data on stdout, messages on stderr, and an exit code for scripts (exit_codes.py).

Nothing heavy is imported here or at the top of a command's module, so that ``windlass --help`` returns at once:
pydantic, the database drivers and the store are loaded inside the command that needs them.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.audit import audit
from windlass.cli.completion import completion
from windlass.cli.config import config
from windlass.cli.db import db
from windlass.cli.demo import demo
from windlass.cli.deploys import deploys
from windlass.cli.dev import dev
from windlass.cli.doctor import doctor
from windlass.cli.exit_codes import run
from windlass.cli.failures import failures
from windlass.cli.init import init
from windlass.cli.instances import instances
from windlass.cli.jobs import jobs
from windlass.cli.operations import operations
from windlass.cli.phases import phases
from windlass.cli.pipelines import pipelines
from windlass.cli.rules import rules
from windlass.cli.schedules import schedules
from windlass.cli.serve import serve
from windlass.cli.status import status
from windlass.cli.submit import submit
from windlass.cli.tokens import token
from windlass.cli.top import top
from windlass.cli.worker import worker


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="windlass", prog_name="windlass", message="%(prog)s %(version)s")
def windlass() -> None:
    """Durable background jobs on SQLite or PostgreSQL."""


for command in (
    audit,
    completion,
    config,
    db,
    demo,
    deploys,
    dev,
    doctor,
    failures,
    init,
    instances,
    jobs,
    operations,
    phases,
    pipelines,
    rules,
    schedules,
    serve,
    status,
    submit,
    token,
    top,
    worker,
):
    windlass.add_command(command)


def main(arguments: Sequence[str] | None = None, *, program: str = "windlass") -> int:
    """Run the command line and return its exit code.

    Without ``arguments`` it uses those of the process, and the process counts as its own: a worker then ensures that the process ends
    soon after this function returned (exit_deadline.py).
    """
    return run(windlass, arguments, program)


__all__ = ["main"]
