"""Finds the ``-- name:`` blocks in the .sql files and hands them out.

A verb is one to several statements; parameters are written ``:name`` in both dialects. The text is read once per
process and dialect. What a driver needs (psycopg's ``%(name)s``) is made here, so that the same source text also serves
callers' own connections with other drivers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\S+)\s*$", re.MULTILINE)
# A colon that begins a parameter: not a cast (::), not inside a word.
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement and the names of its parameters."""

    text: str
    names: frozenset[str]

    def pyformat(self) -> str:
        """The text with psycopg's placeholders."""
        return PARAMETER.sub(r"%(\1)s", self.text.replace("%", "%%"))


@dataclass(frozen=True, slots=True)
class Verb:
    """A named verb: its promise (the comment under its name) and its statements in order."""

    name: str
    promise: str
    statements: tuple[Statement, ...]


def parse(source: str) -> dict[str, Verb]:
    """The verbs of one .sql file. A statement ends with a semicolon at the end of a line."""
    pieces = _NAME.split(source)
    verbs: dict[str, Verb] = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if name in verbs:
            raise ValueError(f"verb {name} stands twice in one file")
        lines = body.strip().splitlines()
        promise = " ".join(line[3:].strip() for line in lines if line.startswith("-- "))
        text = _COMMENT.sub("", body)
        statements = tuple(
            Statement(part.strip(), frozenset(PARAMETER.findall(part)))
            for part in re.split(r";[ \t]*(?:\n|$)", text)
            if part.strip()
        )
        verbs[name] = Verb(name, promise, statements)
    return verbs


@cache
def load(dialect: str) -> Mapping[str, Verb]:
    """All verbs of a dialect (``postgres`` or ``sqlite``)."""
    verbs: dict[str, Verb] = {}
    folder = files("windlass.store").joinpath("sql", dialect)
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".sql"):
            for name, verb in parse(entry.read_text("utf-8")).items():
                if name in verbs:
                    raise ValueError(f"verb {name} stands in two files of {dialect}")
                verbs[name] = verb
    return verbs
