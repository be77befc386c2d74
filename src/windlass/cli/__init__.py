"""The command ``windlass``: data on stdout, messages on stderr, and an exit code for scripts (exit_codes.py).

Nothing heavy is imported here or at the top of a command's module, so that ``windlass --help`` returns at once:
pydantic, the database drivers and the store are loaded inside the command that needs them.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.config import config
from windlass.cli.cron import cron
from windlass.cli.db import db
from windlass.cli.demo import demo
from windlass.cli.exit_codes import run
from windlass.cli.worker import worker


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="windlass", prog_name="windlass", message="%(prog)s %(version)s")
def windlass() -> None:
    """Durable background jobs on SQLite or PostgreSQL."""


windlass.add_command(config)
windlass.add_command(cron)
windlass.add_command(db)
windlass.add_command(demo)
windlass.add_command(worker)


def main(arguments: Sequence[str] | None = None, *, program: str = "windlass") -> int:
    """Run the command line and return its exit code.

    Without ``arguments`` it uses those of the process, and the process counts as its own: a worker then ensures that the process ends
    soon after this function returned (exit_deadline.py).
    """
    return run(windlass, arguments, program)


__all__ = ["main"]
