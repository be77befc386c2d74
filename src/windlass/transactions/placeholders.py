"""Statements as a caller's driver takes them: the text is the store's own, only the placeholders differ.

On PostgreSQL every value travels as text and is cast in the statement. Drivers differ in what they make of a list, a uuid or a
time, and callers teach them codecs of their own (asyncpg's for json is the usual one); all of them send text as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

from windlass.store.database import Row
from windlass.store.schema.statements import PARAMETER, Statement, load

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Style(StrEnum):
    """How a driver marks the place of a value, by the names of the database API (PEP 249) and SQLAlchemy."""

    PYFORMAT = "pyformat"  # %(name)s
    FORMAT = "format"  # %s
    QMARK = "qmark"  # ?
    NAMED = "named"  # :name
    DOLLAR = "numeric_dollar"  # $1


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """A statement for one driver, and which value goes where."""

    text: str
    names: tuple[str, ...]
    is_mapping: bool

    def values(self, given: Mapping[str, Any]) -> Any:
        """The values in the form the driver takes them."""
        if self.is_mapping:
            return {name: given[name] for name in self.names}
        return tuple(given[name] for name in self.names)


@cache
def statements_for(dialect: str, style: Style, verb: str, *, has_clock: bool) -> tuple[DriverStatement, ...]:
    """The statements of a verb. On PostgreSQL the time is the server's, unless a test brings a clock."""
    return tuple(
        _statement_for(statement, verb, style, is_postgres=dialect == "postgres", has_clock=has_clock)
        for statement in load(dialect)[verb].statements
    )


def _statement_for(
    statement: Statement, verb: str, style: Style, *, is_postgres: bool, has_clock: bool
) -> DriverStatement:
    text, made, names, last = statement.text, [], [], 0
    for match in PARAMETER.finditer(text):
        made.append(_fixed(text[last : match.start()], style))
        name, last = match[1], match.end()
        if is_postgres and not text.startswith("::", last):
            raise ValueError(f"verb {verb}: without a cast, :{name} cannot be sent as text")
        if is_postgres and name == "now" and not has_clock:
            made.append("NULL")
            continue
        is_repeated = name in names and style in (Style.PYFORMAT, Style.NAMED, Style.DOLLAR)
        if not is_repeated:
            names.append(name)
        made.append(_placeholder(style, name, names.index(name) + 1) + ("::text" if is_postgres else ""))
    made.append(_fixed(text[last:], style))
    return DriverStatement("".join(made), tuple(names), is_mapping=style in (Style.PYFORMAT, Style.NAMED))


def _fixed(text: str, style: Style) -> str:
    return text.replace("%", "%%") if style in (Style.PYFORMAT, Style.FORMAT) else text


def _placeholder(style: Style, name: str, number: int) -> str:
    match style:
        case Style.PYFORMAT:
            return f"%({name})s"
        case Style.FORMAT:
            return "%s"
        case Style.QMARK:
            return "?"
        case Style.NAMED:
            return f":{name}"
        case Style.DOLLAR:
            return f"${number}"


def as_text(value: object) -> str | None:
    """A value as PostgreSQL reads it from text."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return f"{{{','.join(_element(item) for item in value)}}}"
        case _:
            return str(value)


def _element(item: object) -> str:
    if item is None:
        return "NULL"
    escaped = str(as_text(item)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def as_sqlite(value: object) -> Any:
    """A value as SQLite takes it: lists as JSON, times as microseconds."""
    match value:
        case datetime():
            return (value - _EPOCH) // _MICROSECOND
        case list() | tuple():
            return json.dumps(value)
        case _:
            return value


def as_rows(rows: Any) -> list[Row]:
    """Rows without what a driver made of them: uuids are text, JSON is text, as the store's own drivers return them."""
    return [tuple(_as_stored_text(value) for value in row) for row in rows]


def _as_stored_text(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case dict() | list():
            return json.dumps(value)
        case bytes():
            return value.decode()
        case _:
            return value
