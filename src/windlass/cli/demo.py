"""``windlass demo``: real workers on a real database, one of them killed, and nothing lost or done twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from windlass.cli.failures import ExitCode, say
from windlass.cli.output import output_option, show


@click.command()
@click.option("--once", is_flag=True, help="End when all jobs are done. So far it always does.")
@click.option(
    "--postgres", "on_postgres", is_flag=True, help="On a private PostgreSQL that vanishes afterwards."
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="windlass-demo.db",
    show_default=True,
    help="The SQLite file. It stays; a second start goes on with it.",
)
@click.option(
    "--jobs", type=click.IntRange(20, 100_000), default=200, show_default=True, help="How many parcels."
)
@output_option
def demo(once: bool, on_postgres: bool, file: Path, jobs: int, output: str) -> int:
    """Pack and ship parcels with three worker processes; one of them is killed on the way.

    Parcels go through two phases. Some are due later, some wait for others, one cannot be shipped, one is cancelled.
    Each phase writes an entry in the same transaction that moves the parcel on; at the end the entries are counted.
    """
    del once
    with _tidy_on_sigterm():
        if on_postgres:
            from windlass.cli.demo_postgres import private_postgres

            with private_postgres() as url:
                return _run(url, jobs, output)
        return _run(f"sqlite:///{file}", jobs, output)


def _run(url: str, jobs: int, output: str) -> int:
    from windlass.cli.demo_run import Demo

    facts = Demo(url, jobs).run()
    show(facts.rows(), ("what", "count"), output)
    if not facts.is_right:
        say("error: the entries do not fit the jobs; this is a bug in Windlass, please report it")
        return ExitCode.ENDED_BADLY
    return ExitCode.DONE


@contextmanager
def _tidy_on_sigterm() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C does, so that workers and server are stopped."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
