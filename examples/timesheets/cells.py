"""CSV that a spreadsheet program shows as text: no cell begins a formula, whatever a person wrote into a note."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

FORMULA = tuple("=+-@|%")


def lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """The rows as CSV in UTF-8. Texts are in quotes and safe; numbers of the program itself stay numbers."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerows([cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def cell(value: Any) -> int | float | str:
    """A value as a cell. A text that a program could read as a formula gets an apostrophe, and control characters become spaces."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = "".join(map(_visible, "" if value is None else str(value)))
    return ";".join(
        map(_guarded, text.split(";"))
    )  # where the comma is decimal, programs split at semicolons


def _guarded(text: str) -> str:
    begins = unicodedata.normalize("NFKC", text.lstrip(" \"'"))[:1]
    return f"'{text}" if begins in FORMULA else text


def _visible(char: str) -> str:
    """The character; a space for separators and control characters, nothing for characters without a width."""
    category = unicodedata.category(char)
    if category == "Cf":
        return ""
    return " " if category in ("Cc", "Zs", "Zl", "Zp", "Cs") else char
