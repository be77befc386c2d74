"""Prints rows on stdout, in the format of ``-o``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from windlass.cli.terminal import fitted
from windlass.observe.safe_text import escaped, json_escaped

FORMULA = ("=", "+", "-", "@", "\\t", "\\r")
"""Beginnings of a text that a spreadsheet takes for a formula; control characters are already written out."""

FORMATS = ("table", "json", "jsonl", "csv")
Record = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def output_option(function: F) -> F:
    """``-o table|json|jsonl|csv``."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    return option(function)


def show(records: Iterable[Record], columns: Sequence[str], output: str) -> None:
    """Print records: each column in the given order. JSON keeps types; tables and CSV show nothing for None."""
    rows = [{column: _plain(record[column]) for column in columns} for record in records]
    match output:
        case "json":
            text = json.dumps(rows, indent=2, ensure_ascii=False)
            click.echo("\n".join(map(json_escaped, text.split("\n"))))
        case "jsonl" | "csv":
            stream(rows, columns, output)
        case _:
            for line in table(rows, columns):
                click.echo(fitted(line))


def stream(records: Iterable[Record], columns: Sequence[str], output: str) -> int:
    """Print records as JSON lines or CSV while they are read; returns how many there were."""
    write = _csv_writer(columns) if output == "csv" else None
    count = 0
    for record in records:
        if write is None:
            click.echo(json_line(record, columns))
        else:
            write({column: _plain(record[column]) for column in columns})
        count += 1
    return count


def _csv_writer(columns: Sequence[str]) -> Callable[[Record], object]:
    """Prints the heading; returns a function that prints a row."""
    import csv

    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    return lambda row: writer.writerow({column: _guarded(cell) for column, cell in row.items()})


def json_line(record: Record, columns: Sequence[str]) -> str:
    """A record as one line of JSON."""
    row = {column: _plain(record[column]) for column in columns}
    return json_escaped(json.dumps(row, ensure_ascii=False))


def show_fields(record: Record, output: str) -> None:
    """Print one record: as a table one line for each field that is set, and one for each item of a list of texts; else as ``show`` does."""
    if output != "table":
        show([record], tuple(record), output)
        return
    width = max(map(len, record))
    for name, value in record.items():
        values = value if isinstance(value, list | tuple) else [value]
        for place, item in enumerate(item for item in values if item is not None):
            label = name if place == 0 else ""
            click.echo(f"{label.ljust(width)}  {_cell(_plain(item))}".rstrip())


def table(rows: Sequence[Record], columns: Sequence[str]) -> list[str]:
    """Aligned lines under a heading; numbers to the right."""
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    is_number = [
        bool(rows)
        and all(isinstance(row[column], int | float) and not isinstance(row[column], bool) for row in rows)
        for column in columns
    ]

    def line(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, is_number, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line([column.upper() for column in columns]), *(line(row) for row in cells)]


def _plain(value: Any) -> Any:
    """A value for JSON: times in ISO format, durations in seconds."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case str():
            return str(value)  # a text of its own type, such as a state
        case _:
            return value


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case str():
            return escaped(value)
        case _:
            return escaped(json.dumps(value, ensure_ascii=False))


def _guarded(value: Any) -> Any:
    """Make a cell safe for spreadsheets: a text that begins like a formula gets an apostrophe in front."""
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    text = escaped(value)
    return f"'{text}" if text.startswith(FORMULA) else text
