"""``windlass demo``: a demonstration on a real database, and a second one in which a worker is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show


@click.command()
@click.option(
    "--once", is_flag=True, help="Accepted but not needed: every demonstration ends when its jobs are done."
)
@click.option(
    "--postgres", "on_postgres", is_flag=True, help="Use a private PostgreSQL that is removed afterwards."
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="windlass-demo.db",
    show_default=True,
    help="The SQLite file. It is kept; a second start continues with it.",
)
@click.option(
    "--kill",
    "is_deadly",
    is_flag=True,
    help="Run the other demonstration: three workers, one of them killed.",
)
@click.option(
    "--jobs",
    type=click.IntRange(20, 100_000),
    show_default="200",
    help="With --kill: how many parcels.",
)
@output_option
def demo(once: bool, on_postgres: bool, file: Path, is_deadly: bool, jobs: int | None, output: str) -> int:
    """Run jobs on a real database for some seconds.

    Twelve pages of a small web site pass through three phases that measure its visibility: fetch and read the page, form
    questions, ask a model (the demonstration serves the pages and the model itself). Meanwhile a report processes 50,000 records
    in chunks, and a summary waits for it. Ctrl-C stops gracefully, and the next start continues.

    With --kill, three worker processes pack and ship parcels, and one of them is killed. Each phase writes an entry in the
    transaction that advances the parcel; at the end the entries are counted.
    """
    del once
    if jobs is not None and not is_deadly:
        raise click.UsageError("--jobs is for the demonstration with --kill; the other has its own number")
    jobs = jobs or 200
    if on_postgres:
        from windlass.examples.demo.postgres import private_postgres

        with _tidy_on_sigterm(), private_postgres() as url:
            return _run(url, is_deadly, jobs, output)
    if is_deadly:
        with _tidy_on_sigterm():
            return _run(f"sqlite:///{file}", is_deadly, jobs, output)
    return _run(f"sqlite:///{file}", is_deadly, jobs, output)


def _run(url: str, is_deadly: bool, jobs: int, output: str) -> int:
    if is_deadly:
        return _run_parcels(url, jobs, output)
    from windlass.examples.demo.visibility import run

    facts, code = run(url)
    if facts is None:
        return code
    show(facts.rows(), ("what", "count"), output)
    if not facts.is_right:
        say("error: the results are not as expected; this is a bug in Windlass, please report it")
        return ExitCode.ENDED_BADLY
    return ExitCode.DONE


def _run_parcels(url: str, jobs: int, output: str) -> int:
    from windlass.examples.demo.run import Demo

    facts = Demo(url, jobs).run()
    show(facts.rows(), ("what", "count"), output)
    if not facts.is_right:
        say("error: the entries do not match the jobs; this is a bug in Windlass, please report it")
        return ExitCode.ENDED_BADLY
    return ExitCode.DONE


@contextmanager
def _tidy_on_sigterm() -> Iterator[None]:
    """Make SIGTERM unwind like Ctrl-C, so that workers and server are stopped."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
