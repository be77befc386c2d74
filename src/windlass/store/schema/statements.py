"""Reads the SQL verbs from the .sql files of the store and of its features.

A file is a sequence of blocks, each with a line that says what it is and, as comments, a promise:

    -- name: VERB                    one to several statements; parameters are written ``:name`` in both dialects
    -- fragment: NAME(a, b)          text that is used in several verbs as ``{{NAME(x, y)}}``; inside it, ``{a}`` is x
    -- column: SLOT.NAME(a)          an expression that a feature adds to each verb that has the slot:
                                     ``{{SLOT.names}}``, ``{{SLOT.values(x)}}`` or ``{{SLOT.columns}}``

A fragment that several files define is all of these texts, one after the other, in the order of the features. So a verb of the
core names a slot, and a feature fills the slot without the core naming a table of the feature. ``{LIMIT}`` is the number of that
flag (``model.Flag``).

The text is read once per process and dialect. What a driver needs (psycopg's ``%(name)s``) is made here, so that the same source
text also serves callers' own connections with other drivers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from windlass.model.job import MASKS

CORE = "windlass.store"
_folders: list[str] = []
_on_change: list[Callable[[], None]] = []
_BLOCK = re.compile(r"^-- (name|fragment|column): (\S.*?)\s*$", re.MULTILINE)
_USE = re.compile(r"\{\{\s*([\w.]+)(?:\((.*?)\))?\s*\}\}")
_FLAG = re.compile(r"\{([A-Z_]+)\}")
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


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A text with holes: ``{kind}`` for the parameter ``kind``."""

    parameters: Sequence[str]
    text: str

    def filled(self, arguments: Sequence[str]) -> str:
        text = self.text
        for name, value in zip(self.parameters, arguments, strict=True):
            text = text.replace(f"{{{name}}}", value)
        return text


@dataclass(slots=True)
class _Source:
    """The blocks of all files of a dialect."""

    verbs: dict[str, str] = field(default_factory=dict)
    fragments: dict[str, list[_Fragment]] = field(default_factory=dict)
    columns: dict[str, dict[str, _Fragment]] = field(default_factory=dict)

    def read(self, text: str) -> None:
        pieces = _BLOCK.split(text)
        for what, head, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            if what == "name":
                if head in self.verbs:
                    raise ValueError(f"verb {head} stands twice")
                self.verbs[head] = body
                continue
            name, _, parameters = head.rstrip(")").partition("(")
            fragment = _Fragment(
                [item.strip() for item in parameters.split(",") if item], _COMMENT.sub("", body).strip()
            )
            if what == "fragment":
                self.fragments.setdefault(name, []).append(fragment)
            else:
                slot, _, column = name.partition(".")
                self.columns.setdefault(slot, {})[column] = fragment

    def expanded(self, text: str) -> str:
        """The text with every fragment and slot in its place."""
        while (expanded := _USE.sub(self._use, text)) != text:  # a fragment may use others
            text = expanded
        return _FLAG.sub(lambda found: str(int(MASKS[found[1]])), text)

    def _use(self, found: re.Match[str]) -> str:
        name, given = found[1], found[2]
        arguments = [item.strip() for item in given.split(",")] if given else []
        slot, _, part = name.partition(".")
        if not part:
            if name not in self.fragments:
                raise ValueError(f"no file defines the fragment {name}")
            return "\n".join(fragment.filled(arguments) for fragment in self.fragments[name])
        columns = self.columns.get(slot, {})
        if part == "names":
            return "".join(f", {column}" for column in columns)
        if part == "values":
            return "".join(f",\n{fragment.filled(arguments)}" for fragment in columns.values())
        return "".join(f",\n{fragment.filled(arguments)} AS {column}" for column, fragment in columns.items())


def compose(sources: Sequence[str]) -> dict[str, Verb]:
    """The verbs of several .sql files. A statement ends with a semicolon at the end of a line."""
    source = _read(sources)
    verbs = {}
    for name, body in source.verbs.items():
        lines = body.strip().splitlines()
        promise = " ".join(line[3:].strip() for line in lines if line.startswith("-- "))
        text = source.expanded(_COMMENT.sub("", body))
        statements = tuple(
            Statement(part.strip(), frozenset(PARAMETER.findall(part)))
            for part in re.split(r";[ \t]*(?:\n|$)", text)
            if part.strip()
        )
        verbs[name] = Verb(name, promise, statements)
    return verbs


def _read(sources: Sequence[str]) -> _Source:
    source = _Source()
    for text in sources:
        source.read(text)
    return source


def add_folder(package: str) -> None:
    """Read the verbs of a feature, too: ``postgres.sql`` and ``sqlite.sql`` of this package. Before a database is opened."""
    if package not in _folders:
        _folders.append(package)
        load.cache_clear()
        columns.cache_clear()
        for reload in _on_change:
            reload()


def sources(dialect: str) -> dict[str, str]:
    """All .sql files of a dialect, by package and name: those of the core first, then those of the features in their order."""
    found = {}
    folder = files(CORE).joinpath("sql", dialect)
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".sql"):
            found[f"{CORE}:sql/{dialect}/{entry.name}"] = entry.read_text("utf-8")
    for package in _folders:
        found[f"{package}:{dialect}.sql"] = files(package).joinpath(f"{dialect}.sql").read_text("utf-8")
    return found


def on_change(reload: Callable[[], None]) -> None:
    """Call ``reload`` now, and whenever a folder is added: what was compiled from the verbs must be compiled again."""
    _on_change.append(reload)
    reload()


@cache
def load(dialect: str) -> Mapping[str, Verb]:
    """All verbs of a dialect (``postgres`` or ``sqlite``)."""
    return compose([*sources(dialect).values()])


def expand(dialect: str, text: str) -> Statement:
    """A statement that is made in code, with the fragments it uses."""
    expanded = _read([*sources(dialect).values()]).expanded(text)
    return Statement(expanded, frozenset(PARAMETER.findall(expanded)))


@cache
def columns(dialect: str, slot: str) -> Sequence[str]:
    """The names of the columns that features add to a slot, in order."""
    return [*_read([*sources(dialect).values()]).columns.get(slot, {})]
