"""Checks the migrations and what an inspection of the database found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.config import Config
from windlass.control.doctor.findings import Finding
from windlass.model import history
from windlass.model.inspection import Inspection, Pooler
from windlass.store.schema.migrations import Migration, Status

SHOWN = 5
MIGRATE = "Run `windlass db migrate` with the same --app or --url."


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on a number is a finding."""

    clock: float = 2.0
    """Seconds between the clocks of this machine and of the database."""
    clock_error: float = 30.0
    dead_rows: int = 50_000
    """Dead rows of a table, if they are more than its live rows, too."""
    transaction: float = 600.0
    """Seconds that a transaction may be open."""
    free_bytes: int = 256 * 1024 * 1024
    """Free bytes of a SQLite file, if they are more than half of the file."""
    log_bytes: int = 512 * 1024 * 1024


def check_schema(status: Status, known: tuple[Migration, ...]) -> Iterator[Finding]:
    """Migrations that are pending, or of a later release."""
    if status.pending:
        names = ", ".join(f"{step.version:04d}_{step.name}" for step in status.pending[:SHOWN])
        more = "" if len(status.pending) <= SHOWN else f" and {len(status.pending) - SHOWN} more"
        what = f"lacks {len(status.pending)} migrations of this release: {names}{more}"
        sentence = f"The database {what}." if status.applied else "The database has no tables of Windlass."
        yield Finding.error("schema.pending", sentence, MIGRATE)
    newest = known[-1].version
    if status.version > newest:
        yield Finding.note(
            "schema.newer",
            f"The database has version {status.version}, and this release knows {newest}: it belongs to a later release, which promised to "
            "keep this one working.",
            "Upgrade Windlass on this machine when the other machines are upgraded.",
        )


def check_tables(found: Inspection, limits: Thresholds) -> Iterator[Finding]:
    """What is gone, bloated or about to run out."""
    if found.missing:
        names = ", ".join(found.missing[:SHOWN])
        more = "" if len(found.missing) <= SHOWN else f" and {len(found.missing) - SHOWN} more"
        yield Finding.error(
            "schema.drift",
            f"The database differs from its migrations; it lacks: {names}{more}.",
            "The tables were changed by hand. Make what is missing again (windlass db sql --all prints the statements), or restore a backup.",
        )
    for name in found.invalid:
        yield Finding.warning(
            "schema.invalid_index",
            f"The index windlass.{name} is not valid: its creation was interrupted. Writes maintain it, and no read uses it.",
            f"REINDEX INDEX CONCURRENTLY windlass.{name};",
        )
    yield from _bloat(found, limits)
    yield from _history(found)


def _bloat(found: Inspection, limits: Thresholds) -> Iterator[Finding]:
    for rows in found.dead_rows:
        if rows.dead >= limits.dead_rows and rows.dead > rows.live:
            yield Finding.warning(
                "bloat",
                f"The table windlass.{rows.table} has {rows.dead:,} dead rows beside {rows.live:,} live ones; claims become slow.",
                f"VACUUM windlass.{rows.table}; then find what kept autovacuum: an old transaction, or autovacuum that is off or too slow.",
            )
    if found.autovacuum is False:
        yield Finding.warning(
            "bloat.autovacuum",
            "Autovacuum is off on this server; dead rows of the queue are never removed.",
            "Set autovacuum = on in postgresql.conf and reload the server.",
        )
    for transaction in found.transactions:
        if transaction.seconds >= limits.transaction:
            who = f" ({transaction.application})" if transaction.application else ""
            yield Finding.warning(
                "transaction.old",
                f"The session with process id {transaction.pid}{who} has had a transaction open for {transaction.seconds / 60:.0f} min; vacuum "
                "cannot remove dead rows of that time.",
                f"End the transaction in its program, or SELECT pg_terminate_backend({transaction.pid}); "
                "idle_in_transaction_session_timeout ends such transactions.",
            )
    if found.free_bytes >= limits.free_bytes and 2 * found.free_bytes > found.file_bytes:
        yield Finding.note(
            "bloat.file",
            f"{found.free_bytes / 1e6:.0f} MB of the {found.file_bytes / 1e6:.0f} MB of the SQLite file hold nothing. New jobs reuse them.",
            "To return the space to the disk, stop the workers and run VACUUM on the file.",
        )
    if found.log_bytes >= limits.log_bytes:
        yield Finding.warning(
            "bloat.log",
            f"The write-ahead log of the SQLite file has {found.log_bytes / 1e6:.0f} MB; reads become slow.",
            "A program holds a read transaction open: end it. A running worker then cuts the log within an hour.",
        )


def _history(found: Inspection) -> Iterator[Finding]:
    left = found.left
    if left is not None and left.is_late:
        text = (
            "Today has no partition of history: jobs cannot be finished unless a worker may make it."
            if left.ahead <= 0
            else f"History has partitions for {left.ahead} days ahead; from {left.day} on there is none."
        )
        cure = (
            "Start a worker, or run `windlass db migrate`: both make the partitions of the next seven days."
            if found.may_make
            else history.OWNER_ADVICE
        )
        severity = Finding.error if left.ahead <= 1 else Finding.warning
        yield severity("history.ahead", text, cure)
    if many := history.partition_warning(found.partitions):
        yield Finding.warning("history.partitions", f"{many[0].upper()}{many[1:]}.", history.ADVICE)


def check_connection(
    found: Inspection, config: Config, direct: Pooler | None, limits: Thresholds
) -> Iterator[Finding]:
    """The clock of the database, and the pooler before it."""
    ahead = found.clock_ahead
    if ahead is not None and abs(ahead) >= limits.clock:
        severity = Finding.error if abs(ahead) >= limits.clock_error else Finding.warning
        which = "ahead of" if ahead > 0 else "behind"
        yield severity(
            "clock",
            f"The clock of the database is {abs(ahead):.1f} s {which} the clock of this machine; times in logs and time limits differ by it.",
            "Synchronise both clocks (NTP).",
        )
    pooled, has_direct = config["database.pooled"], config.direct_url is not None
    if found.pooler is Pooler.TRANSACTION and not pooled:
        yield Finding.error(
            "pooler.transaction",
            "The URL leads to a pooler in transaction mode, and database.pooled is false: prepared statements and session settings get lost.",
            "Set database.pooled = true, and database.direct_url to the way around the pooler.",
        )
    if found.pooler is Pooler.SESSION and not pooled and not has_direct:
        yield Finding.note(
            "pooler.session",
            "The URL leads to a pooler in session mode; each worker occupies its sessions for as long as it runs.",
            "Nothing, if the pooler has enough sessions; otherwise connect workers to the server itself.",
        )
    if pooled and found.pooler is Pooler.NONE:
        yield Finding.note(
            "pooler.none",
            "database.pooled is true, and the URL leads to the server itself; statements are not prepared, which costs time.",
            "Remove database.pooled.",
        )
    if pooled and not has_direct:
        yield Finding.warning(
            "pooler.no_direct_url",
            "database.pooled is true and database.direct_url is not set: workers get no notifications and find new jobs by polling.",
            "Set database.direct_url to the way around the pooler.",
        )
    if direct is Pooler.TRANSACTION:
        yield Finding.error(
            "pooler.direct_url",
            "database.direct_url leads to a pooler in transaction mode, too: notifications get lost.",
            "Set database.direct_url to the address of the server itself.",
        )
