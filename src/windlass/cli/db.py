"""``windlass db``: create, inspect and prune the tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from windlass.cli.durations import Duration
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show
from windlass.cli.stores import existing_store
from windlass.cli.urls import url_option
from windlass.urls import dialect_of, without_secrets


def _wait_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    seconds = click.FloatRange(min=0)
    return click.option(
        "--wait", type=seconds, default=120.0, show_default=True, metavar="SECONDS", help=text
    )


@click.group()
def db() -> None:
    """Create, inspect and clean the database."""


@db.command()
@url_option
@_wait_option("How long to wait for other migrators and for locks.")
def migrate(url: str, wait: float) -> None:
    """Apply pending migrations.

    Prints the name of each applied migration. Safe to run from several places at once and while instances run. A missing
    SQLite file is created.
    """
    from windlass.store.migrate import migrate as apply

    applied = apply(url, patience=wait)
    for name in applied:
        click.echo(name)
    state = f"{without_secrets(url)} is up to date"
    say(f"{len(applied)} applied; {state}" if applied else state)


@db.command()
@url_option
@output_option
def status(url: str, output: str) -> int:
    """List migrations, applied and pending.

    The exit code is 1 while a migration is pending. A warning is printed if history has too many partitions (200 or more). A
    migration that is `newer` belongs to a later release, which promises to keep this release working. Nothing is changed, and
    no SQLite file is created.
    """
    from windlass.model import history
    from windlass.store.migrate import status as read
    from windlass.store.schema.migrations import available

    found = read(url)
    known = {migration.version for migration in available(dialect_of(url))}
    rows: list[dict[str, Any]] = [
        {"version": version, "name": name, "state": "applied" if version in known else "newer"}
        for version, name in found.applied
    ]
    rows += [{"version": step.version, "name": step.name, "state": "pending"} for step in found.pending]
    show(rows, ("version", "name", "state"), output)
    where = without_secrets(url)
    if too_many := history.partition_warning(found.partitions):
        say(f"warning: {too_many}. {history.ADVICE}")
    if found.pending:
        say(f"{len(found.pending)} pending in {where}; run `windlass db migrate`")
        return ExitCode.ENDED_BADLY
    say(f"{where} is up to date")
    return ExitCode.DONE


@db.command()
@url_option
@click.option("--all", "is_all", is_flag=True, help="Print every migration, without reading the database.")
def sql(url: str, is_all: bool) -> None:
    """Print the SQL of pending migrations, for applying it by hand.

    The script is complete: it takes the migrators' lock and records each migration as applied, so that `windlass db
    status` agrees afterwards.
    """
    dialect = dialect_of(url)
    from windlass.cli.db_script import script
    from windlass.store.migrate import status as read
    from windlass.store.schema.migrations import available

    steps = available(dialect) if is_all else read(url).pending
    if not steps:
        say("nothing is pending; --all prints every migration")
        return
    click.echo(script(dialect, steps), nl=False)


@db.command()
@url_option
@_wait_option("How long to wait for other transactions and locks before giving up.")
@output_option
def merge_history(url: str, wait: float, output: str) -> int:
    """Merge old days of history into months (PostgreSQL).

    A month is created when its last day is more than 35 days ago. Workers merge by themselves if there are more than 120
    partitions and their role owns the tables. Other sessions wait for a moment at most. Ctrl-C loses nothing: the next run
    continues. Merging needs as much disk space as the largest month. On SQLite there is nothing to do.
    """
    from windlass.cli.db_merge import merge_store

    with existing_store(url) as store:
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
@url_option
@click.option(
    "--completed", type=Duration(), default="7d", show_default=True, help="Keep completed jobs this long."
)
@click.option(
    "--failed", type=Duration(), default="90d", show_default=True, help="Keep failed jobs this long."
)
@click.option(
    "--cancelled", type=Duration(), default="30d", show_default=True, help="Keep cancelled jobs this long."
)
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE.jsonl",
    help="Append each job as a line of JSON before it is removed.",
)
@output_option
def prune(
    url: str,
    completed: timedelta | None,
    failed: timedelta | None,
    cancelled: timedelta | None,
    archive: Path | None,
    output: str,
) -> None:
    """Remove ended jobs that are past their retention.

    Durations are written 90s, 15m, 12h, 7d or forever. Jobs are removed in short transactions, so that workers are not
    delayed; Ctrl-C stops between two of them and loses nothing. A job that a waiting job depends on stays. On PostgreSQL
    whole days of history are dropped first if every retention allows it and there is no archive to write.
    """
    from windlass.cli.db_prune import prune_store
    from windlass.model import Retention

    keep = Retention(completed=completed, failed=failed, cancelled=cancelled)
    with existing_store(url) as store:
        removed = prune_store(store, keep, archive)
    show([removed], ("removed", "archived"), output)
