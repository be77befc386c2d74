"""Writes migrations as one script that psql or sqlite3 can run.

The script does the same as ``db migrate``, in the same order: the migrators' lock, the bookkeeping table, the files, and a row
for each file with its checksum, without which a later ``db migrate`` would apply the file again.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.schema.migrations import Migration


def script(dialect: str, steps: Sequence[Migration]) -> str:
    """The SQL of some migrations of one dialect."""
    return _sqlite(steps) if dialect == "sqlite" else _postgres(steps)


def _postgres(steps: Sequence[Migration]) -> str:
    from windlass.store.postgres.migrate import BOOKKEEPING, LOCK_KEY, LOCK_TIMEOUT_MS

    parts = [
        "-- For psql -X -v ON_ERROR_STOP=1. History partitions are made by the first instance that needs one."
    ]
    for step in steps:
        first = (
            f"CREATE SCHEMA IF NOT EXISTS windlass;\n{BOOKKEEPING.strip()};\n" if step.version == 1 else ""
        )
        note = f"INSERT INTO windlass.migration (version, name, checksum) VALUES {_row(step)} ON CONFLICT DO NOTHING;"  # noqa: S608  text for a person; all parts are our own
        head = f"\n-- {step.version:04d}_{step.name}"
        if step.in_transaction:
            lock = f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS};\nSELECT pg_advisory_xact_lock({LOCK_KEY});"
            parts.append(f"{head}\nBEGIN;\n{lock}\n{first}{step.sql.rstrip()}\n{note}\nCOMMIT;")
        else:
            parts.append(f"{head}\nSET lock_timeout = {LOCK_TIMEOUT_MS};\n{step.sql.rstrip()}\n{note}")
    return "\n".join(parts) + "\n"


def _sqlite(steps: Sequence[Migration]) -> str:
    from windlass.store.sqlite.migrate import BOOKKEEPING

    parts = ["PRAGMA journal_mode = WAL;", "BEGIN IMMEDIATE;", f"{BOOKKEEPING.strip()};"]
    for step in steps:
        note = f"INSERT INTO windlass_migration (version, name, checksum) VALUES {_row(step)};"  # noqa: S608  as above
        parts.append(f"\n-- {step.version:04d}_{step.name}\n{step.sql.rstrip()}\n{note}")
    return "\n".join([*parts, "COMMIT;"]) + "\n"


def _row(step: Migration) -> str:
    return f"({step.version}, '{step.name}', '{step.checksum}')"
