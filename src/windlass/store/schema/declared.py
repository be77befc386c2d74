"""The names of what migrations make, read from their texts: for databases in which the migrations cannot be tried.

Reads the statements that the migrations of Windlass consist of, and no other SQL: ``tests/store/test_declared.py`` compares the names with
the catalog of a migrated database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from windlass.store.schema.migrations import Migration

_COMMENT = re.compile(r"--[^\n]*")
_BODY = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_TABLE = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?windlass\.(\w+)\s*\((.*)", re.DOTALL)
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+)")
_ALTER = re.compile(r"ALTER TABLE (?:ONLY )?windlass\.(\w+)\s+(.*)", re.DOTALL)
_RENAME_INDEX = re.compile(r"ALTER INDEX windlass\.(\w+) RENAME TO (\w+)")
_DROP_INDEX = re.compile(r"DROP INDEX (?:CONCURRENTLY )?(?:IF EXISTS )?windlass\.(\w+)")
_ADD_COLUMN = re.compile(r"ADD COLUMN (?:IF NOT EXISTS )?(\w+)")
_OTHER = re.compile(r"CREATE (?:OR REPLACE )?(FUNCTION|TRIGGER|VIEW|SEQUENCE) (?:windlass\.)?(\w+)")
_NO_COLUMN = ("constraint", "primary", "unique", "check", "foreign", "exclude", "like")


@dataclass(slots=True)
class Declared:
    """Names by their sort: ``table job``, ``column job.id``, ``index job_ready``."""

    names: set[str] = field(default_factory=set)

    def missing(self, found: Iterable[str]) -> list[str]:
        """The names that a database lacks; of a table that is gone, not its columns."""
        lacking = self.names - set(found)
        return sorted(
            name
            for name in lacking
            if not (name.startswith("column ") and f"table {name[7:].partition('.')[0]}" in lacking)
        )


def declared(migrations: Sequence[Migration]) -> Declared:
    """The names that remain when these migrations of PostgreSQL were applied in order."""
    made = Declared()
    for migration in migrations:
        text = _BODY.sub("", _COMMENT.sub("", migration.sql))
        for statement in text.split(";"):
            _apply(made.names, statement.strip())
    return made


def _apply(names: set[str], statement: str) -> None:
    if match := _TABLE.match(statement):
        names.add(f"table {match[1]}")
        names.update(f"column {match[1]}.{column}" for column in _columns(match[2]))
    elif match := _INDEX.match(statement):
        names.add(f"index {match[1]}")
    elif match := _RENAME_INDEX.match(statement):
        names.discard(f"index {match[1]}")
        names.add(f"index {match[2]}")
    elif match := _DROP_INDEX.match(statement):
        names.discard(f"index {match[1]}")
    elif match := _ALTER.match(statement):
        names.update(f"column {match[1]}.{column}" for column in _ADD_COLUMN.findall(match[2]))
    elif match := _OTHER.match(statement):
        names.add(f"{match[1].lower()} {match[2]}")


def _columns(body: str) -> list[str]:
    """The first word of each part of a table's definition, up to the parenthesis that ends it."""
    parts, depth, part = [], 0, ""
    for char in body:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += char
    words = [item.split()[0] for item in (*parts, part) if item.split()]
    return [word for word in words if word.lower() not in _NO_COLUMN]
