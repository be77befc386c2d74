"""The parts of a filter: terms, their values, and how both are written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from windlass.model import State

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_LITERALS = ("true", "false", "null")
NAME = re.compile(r"[^\s.,:\"\\<>=!*'()|&;]+")
"""A key, or a name of a path without quotes."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_FORBIDDEN = frozenset('",\\')


@dataclass(frozen=True, slots=True)
class Word:
    """A text to compare with; with ``is_prefix``, what values have to begin with (written ``report*``)."""

    text: str
    is_prefix: bool = False

    def covers(self, text: str) -> bool:
        """Whether a value is the word, or begins with it."""
        return text.startswith(self.text) if self.is_prefix else text == self.text


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value in the arguments of a job. A number, ``true``, ``false`` or ``null`` without quotes (``is_text`` is False) matches the JSON value
    and the string of the same characters; anything else, and any value in quotes, matches the string alone."""

    text: str
    is_text: bool = True

    @classmethod
    def of(cls, text: str, *, is_quoted: bool) -> Scalar:
        return cls(text, is_quoted or not is_literal(text))


Value = State | Word | Scalar | int | datetime | timedelta
"""The values of terms: one type for each type of key."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: one of ``values``, or a comparison (``op``) with the one value; ``is_negated`` for the jobs that do not meet the condition."""

    key: str
    values: tuple[Value, ...]
    op: str = ""
    is_negated: bool = False
    path: tuple[str, ...] = ()
    """Of the key ``args``: the names that lead to the value."""

    def __str__(self) -> str:
        name = ".".join([self.key, *(segment_text(part) for part in self.path)])
        values = ",".join(map(value_text, self.values))
        return f"{'-' if self.is_negated else ''}{name}:{self.op}{values}"


def is_literal(text: str) -> bool:
    """Whether a text without quotes is a JSON number, boolean or null."""
    return text in _LITERALS or NUMBER.fullmatch(text) is not None


def segment_text(segment: str) -> str:
    """A name of a path as it is written."""
    return segment if NAME.fullmatch(segment) else quoted(segment)


def value_text(value: Value) -> str:
    """A value as it is written in a filter."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Word):
        return f"{_word(value.text)}*" if value.is_prefix else _word(value.text)
    if isinstance(value, Scalar):
        if not value.is_text:
            return value.text
        return quoted(value.text) if is_literal(value.text) else _word(value.text)
    return str(value)


def duration_text(value: timedelta) -> str:
    """A duration in the largest unit that holds it: ``90m``, ``7d``."""
    seconds = value // timedelta(seconds=1)
    return next(f"{seconds // size}{unit}" for size, unit in _UNITS if seconds % size == 0)


def quoted(text: str) -> str:
    """A text in quotes, with escapes."""
    return '"' + "".join(_escape(sign) for sign in text) + '"'


def _word(text: str) -> str:
    return text if is_bare(text) else quoted(text)


def is_bare(text: str) -> bool:
    """Whether a value can be written without quotes."""
    return (
        bool(text)
        and text[0] not in "<>=!'"
        and "*" not in text
        and not any(sign in _FORBIDDEN or sign.isspace() or not sign.isprintable() for sign in text)
    )


def _escape(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]
