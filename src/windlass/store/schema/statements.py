"""Reads the SQL verbs from the .sql files of the store and of its features.

A file is a sequence of blocks, each with a line that says what it is and, as comments, a promise:

    -- name: VERB                    one to several statements; parameters are written ``:name`` in both dialects
    -- fragment: NAME(a, b)          text that is used in several verbs as ``{{NAME(x, y)}}``; inside it, ``{a}`` is x
    -- slot: SLOT                    a place for columns that features add: ``{{SLOT.names}}``, ``{{SLOT.values(x)}}`` or
                                     ``{{SLOT.columns}}``
    -- column: SLOT.NAME(a)          an expression that a feature adds to each verb that has the slot

Files for both dialects (``sql/both/`` of the core, ``both.sql`` of a feature) have the words of PostgreSQL, and fragments for what
SQLite writes in another way (``sql/*/words.sql``). For SQLite, ``spelled`` changes the names of tables and leaves out casts, row locks and
``OFFSET 0``: a cast must not change the value. ``{{given(:edges, g, parent uuid, policy text)}}`` stands for the rows of a JSON array, with these columns.

A fragment without a text is a slot, too: features define it again, and it is all of their texts, one after the other, in the order of
the features. So a verb of the core names a slot, and a feature fills the slot without the core naming a table of the feature. Any
other name that stands twice, and any name that no file defines, is an error. ``{LIMIT}`` is the number of that flag (``model.Flag``).

``./dev mutate-sql`` takes a fragment for a condition if its comment begins with "Whether".

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
_BLOCK = re.compile(r"^-- (name|fragment|slot|column): (\S.*?)\s*$", re.MULTILINE)
# The innermost use first: an argument may be a fragment.
_USE = re.compile(r"\{\{([\w.]+)(?:\(((?:(?!\{\{|\}\}).)*)\))?\}\}", re.DOTALL)
_FLAG = re.compile(r"\{([A-Z_]+)\}")
# A colon that begins a parameter: not a cast (::), not inside a word.
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_COMMENT = re.compile(r"--[^\n]*")
_GIVEN = re.compile(r"\{\{given\((:\w+), (\w+),\s+([^{}]*?)\s*\)\}\}")
_CAST = re.compile(r"::(?:double precision|\w+)(?:\[\])?")
_LOCK = re.compile(
    r"(?:--[^\n]*)?\s+(?:FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?|OFFSET 0)(?=[;)\s])"
)


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
        if len(arguments) != len(self.parameters):
            raise ValueError(f"a fragment of {self.parameters} is used with {arguments}")
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
            slot, _, column = name.partition(".")
            if what == "fragment":
                known = self.fragments.setdefault(name, [])
                if known and known[0].text:
                    raise ValueError(f"fragment {name} stands twice, and is no slot")
                known.append(fragment)
            elif what == "slot":
                self.columns.setdefault(name, {})
            elif slot not in self.columns:
                raise ValueError(f"column {name}: no file before it declares the slot {slot}")
            elif column in self.columns[slot]:
                raise ValueError(f"column {name} stands twice")
            else:
                self.columns[slot][column] = fragment

    def expanded(self, text: str) -> str:
        """The text with every fragment and slot in its place."""
        while (expanded := _USE.sub(self._use, text)) != text:  # a fragment may use others
            text = expanded
        return _FLAG.sub(lambda found: str(int(MASKS[found[1]])), text)

    def _use(self, found: re.Match[str]) -> str:
        name, given = found[1], found[2]
        arguments = _arguments(given or "")
        slot, _, part = name.partition(".")
        if not part:
            if name not in self.fragments:
                raise ValueError(f"no file defines the fragment {name}")
            return "\n".join(fragment.filled(arguments) for fragment in self.fragments[name])
        columns = self.columns.get(slot)
        if columns is None or part not in ("names", "values", "columns"):
            raise ValueError(f"no file declares the slot {name}")
        if part == "names":
            return "".join(f", {column}" for column in columns)
        if part == "values":
            return "".join(f",\n{fragment.filled(arguments)}" for fragment in columns.values())
        return "".join(f",\n{fragment.filled(arguments)} AS {column}" for column, fragment in columns.items())


def _arguments(text: str) -> list[str]:
    """The arguments of a fragment: what stands between commas that are not inside round brackets."""
    found, depth = [""] if text else [], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [item.strip() for item in found]


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


def spelled(text: str, dialect: str) -> str:
    """The text of a file for both dialects, in the words of one."""
    if dialect == "sqlite":
        text = _CAST.sub("", _LOCK.sub("", text.replace("windlass.", "windlass_")))
        return _GIVEN.sub(lambda found: _json_rows(found[1], found[2], found[3].split(",")), text)
    return _GIVEN.sub(r"json_to_recordset(\1::json) AS \2 (\3)", text)


def _json_rows(parameter: str, alias: str, columns: Sequence[str]) -> str:
    """What SQLite has for json_to_recordset: JSON null is NULL in every column."""
    values = []
    for name, kind in (column.split(maxsplit=1) for column in columns):
        value = f"NULLIF(e.value -> '$.{name}', 'null')" if kind == "jsonb" else f"e.value ->> '$.{name}'"
        values.append(f"{value} AS {name}")
    return f"(SELECT {', '.join(values)} FROM json_each({parameter}) AS e) AS {alias}"  # noqa: S608  words of our own files


def add_folder(package: str) -> None:
    """Read the verbs of a feature, too: ``both.sql``, ``postgres.sql`` and ``sqlite.sql`` of this package. Before a database is opened."""
    if package not in _folders:
        _folders.append(package)
        load.cache_clear()
        columns.cache_clear()
        for reload in _on_change:
            reload()


def sources(dialect: str) -> dict[str, str]:
    """All texts of a dialect, by package and name of the file: those of the core first, then those of the features in their order."""
    found = {}
    for folder in ("both", dialect):
        for entry in sorted(files(CORE).joinpath("sql", folder).iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".sql"):
                found[f"{CORE}:sql/{folder}/{entry.name}"] = entry.read_text("utf-8")
    for package in _folders:
        for name in ("both", dialect):
            if (entry := files(package).joinpath(f"{name}.sql")).is_file():
                found[f"{package}:{name}.sql"] = entry.read_text("utf-8")
    return {name: spelled(text, dialect) if is_for_both(name) else text for name, text in found.items()}


def is_for_both(file: str) -> bool:
    """Whether a file, by its path, has texts for both dialects."""
    return file.endswith("both.sql") or "/both/" in file


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
