"""``windlass db``: create, inspect and prune the tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from windlass.cli.control import reason_option
from windlass.cli.database import ChosenDatabase, database_options, existing_store
from windlass.cli.durations import Duration, Seconds
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show
from windlass.urls import dialect_of

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.model import Retention


def _wait_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--wait", type=Seconds(), default=120.0, show_default=True, metavar="SECONDS", help=text
    )


USUAL = {"completed": timedelta(days=7), "failed": timedelta(days=90), "cancelled": timedelta(days=30)}
"""How long ``windlass db prune`` keeps jobs where no setting says it."""


def _keep_option(state: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        f"--{state}",
        type=Duration(),
        show_default=f"retention.{state} if that is set, else {USUAL[state].days}d",
        help=f"Keep {state} jobs this long.",
    )


def _retention(config: Config, given: dict[str, timedelta | None]) -> Retention:
    """How long jobs are kept: as the command line says, else the settings, else as usual."""
    from windlass.config import DEFAULT
    from windlass.model import Retention

    context = click.get_current_context()
    for state in given:
        if context.get_parameter_source(state) is ParameterSource.DEFAULT:
            seconds = config[f"retention.{state}"]
            is_set = config.origin(f"retention.{state}") != DEFAULT
            given[state] = (
                USUAL[state] if not is_set else None if seconds is None else timedelta(seconds=seconds)
            )
    return Retention(**given)


@click.group()
def db() -> None:
    """Create, inspect and clean the database."""


@db.command()
@database_options
@_wait_option("How long to wait for other migrators and for locks.")
def migrate(database: ChosenDatabase, wait: float) -> None:
    """Apply pending migrations.

    Prints the name of each applied migration. Safe to run from several places at once and while instances run. A missing
    SQLite file is created if its URL is configured; without a URL nothing is created.
    """
    from windlass.store.migrate import migrate as apply

    applied = apply(database.owner_url, patience=wait)
    for name in applied:
        click.echo(name)
    state = f"{database.owner_named} is up to date"
    say(f"{len(applied)} applied; {state}" if applied else state)


@db.command()
@database_options
@output_option
def status(database: ChosenDatabase, output: str) -> int:
    """List migrations, applied and pending.

    The exit code is 1 while a migration is pending. A warning is printed if history has too many partitions (200 or more). A
    migration that is `newer` belongs to a later release, which promises to keep this release working. Nothing is changed, and
    no SQLite file is created.
    """
    from windlass.model import history
    from windlass.store.migrate import status as read
    from windlass.store.schema.migrations import available

    found = read(database.owner_url, timeout=database.connect_timeout)
    known = {migration.version for migration in available(dialect_of(database.url))}
    rows: list[dict[str, Any]] = [
        {"version": version, "name": name, "state": "applied" if version in known else "newer"}
        for version, name in found.applied
    ]
    rows += [{"version": step.version, "name": step.name, "state": "pending"} for step in found.pending]
    show(rows, ("version", "name", "state"), output)
    where = database.owner_named
    if too_many := history.partition_warning(found.partitions):
        say(f"warning: {too_many}. {history.ADVICE}")
    if found.pending:
        say(f"{len(found.pending)} pending in {where}; run `windlass db migrate`")
        return ExitCode.ENDED_BADLY
    say(f"{where} is up to date")
    return ExitCode.DONE


@db.command()
@database_options
@click.option("--all", "is_all", is_flag=True, help="Print every migration, without reading the database.")
def sql(database: ChosenDatabase, is_all: bool) -> None:
    """Print the SQL of pending migrations, for applying it by hand.

    The script is complete: it takes the migrators' lock and records each migration as applied, so that `windlass db
    status` agrees afterwards.
    """
    dialect = dialect_of(database.url)
    from windlass.cli.db_script import script
    from windlass.store.migrate import status as read
    from windlass.store.schema.migrations import available

    steps = (
        available(dialect) if is_all else read(database.owner_url, timeout=database.connect_timeout).pending
    )
    if not steps:
        say("nothing is pending; --all prints every migration")
        return
    click.echo(script(dialect, steps), nl=False)


@db.command()
@database_options
@_wait_option("How long to wait for other transactions and locks before giving up.")
@output_option
def merge_history(database: ChosenDatabase, wait: float, output: str) -> int:
    """Merge old days of history into months (PostgreSQL).

    A month is created when its last day is more than 35 days ago. Workers merge by themselves if there are more than 120
    partitions and their role owns the tables. Other sessions wait for a moment at most. Ctrl-C loses nothing: the next run
    continues. Merging needs as much disk space as the largest month. On SQLite there is nothing to do.
    """
    from windlass.cli.db_merge import merge_store

    with existing_store(database) as store:
        made, stuck = merge_store(store, wait)
        partitions = store.upkeep.partitions()
    show(made, ("month", "jobs"), output)
    if stuck:
        say(
            f"gave up after {wait:g} s: {stuck} (pg_stat_activity shows the sessions). Nothing is lost; run the command again to continue"
        )
        return ExitCode.WAIT_RAN_OUT
    say(
        f"history has {partitions} partitions"
        if partitions
        else "history is one table; there is nothing to merge"
    )
    return ExitCode.DONE


@db.command()
@database_options
@output_option
def tables(database: ChosenDatabase, output: str) -> None:
    """List the sizes of the tables with their indexes, the largest first.

    Rows are estimates on PostgreSQL. On SQLite every page of the file is visited.
    """
    from windlass.cli.control import control

    with control(database) as service:
        found = service.doctor.tables()
    show(
        [{"table": one.table, "rows": one.rows, "bytes": one.bytes} for one in found],
        ("table", "rows", "bytes"),
        output,
    )


@db.command()
@database_options
@_keep_option("completed")
@_keep_option("failed")
@_keep_option("cancelled")
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE.jsonl",
    show_default="retention.archive if that is set, else none",
    help="Append each job as a line of JSON before it is removed.",
)
@reason_option
@output_option
def prune(
    database: ChosenDatabase,
    completed: timedelta | None,
    failed: timedelta | None,
    cancelled: timedelta | None,
    archive: Path | None,
    reason: str | None,
    output: str,
) -> None:
    """Remove ended jobs that are past their retention.

    Durations are written 90s, 15m, 1h 30m, 7d or forever. Jobs are removed in short transactions, so that workers are not
    delayed; Ctrl-C stops between two of them and loses nothing. A job that a waiting job depends on stays. On PostgreSQL
    whole days of history are dropped first if every retention allows it and there is no archive to write.
    """
    from windlass.cli.db_prune import prune_store

    keep = _retention(database.config, {"completed": completed, "failed": failed, "cancelled": cancelled})
    if archive is None and (configured := database.config["retention.archive"]) is not None:
        archive = Path(configured)
    with existing_store(database) as store:
        removed = prune_store(store, keep, archive, reason)
    show([removed], ("removed", "archived"), output)
