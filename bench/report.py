"""Figures as a table for people and as JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def show(title: str, rows: Sequence[Row], path: Path | None) -> None:
    """Print a table, and write the rows as JSON where asked for."""
    print(f"\n{title}")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_text(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[n]) for line in cells)) for n, column in enumerate(columns)]
    for line in ([*columns], ["-" * width for width in widths], *cells):
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if path is not None:
        path.write_text(json.dumps({"title": title, "rows": list(rows)}, indent=2) + "\n")


def say(message: str) -> None:
    """Progress, on stderr: stdout is the table."""
    print(message, file=sys.stderr, flush=True)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
