"""Python values that are about to be stored: what JSON would lose, and which field it is.

``encoding`` writes JSON in C and checks single values only when it must. This is the slow, exact half: it walks a value
before it is written, then compares what was written with it. A value that JSON would consume (an iterator, an open file),
mask (a secret) or turn into something else (NaN in a model becomes null, bytes become text) is refused by name.
"""

from __future__ import annotations

import dataclasses
import enum
import io
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NoReturn
from uuid import UUID

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic_core import from_json, to_json, to_jsonable_python

from windlass.arguments.json_checks import FLATTEN, Path, TreeInspector, a_type, explain, spell_floats
from windlass.errors import PayloadError, PayloadTooLargeError

_AS_LIST = "turn it into a list first, list(...)"
AWAITED = "await it in an async function; a decorator around an async function must be async, too, or use functools.wraps"
_AS_BASE64 = "encode it as text, base64.b64encode(value).decode()"
_TEXT_KEYS = "use text keys, and a list of pairs for anything else"
_BY_REFERENCE = "store the secret's name or id and fetch it in the handler"


_Nature = enum.Enum(
    "_Nature",
    "LEAF TEXT INTEGER FLOAT DECIMAL ENUM MAPPING SEQUENCE SET MODEL DATACLASS BYTES SECRET ITERATOR AWAITABLE",
)
_NATURES: Final[tuple[tuple[type | tuple[type, ...], _Nature], ...]] = (
    (BaseModel, _Nature.MODEL),
    (enum.Enum, _Nature.ENUM),
    (str, _Nature.TEXT),
    (bool, _Nature.LEAF),
    (int, _Nature.INTEGER),
    (float, _Nature.FLOAT),
    (Decimal, _Nature.DECIMAL),
    (dict, _Nature.MAPPING),
    ((set, frozenset), _Nature.SET),
    ((list, tuple, deque), _Nature.SEQUENCE),
    ((bytes, bytearray, memoryview), _Nature.BYTES),
    ((Secret, SecretStr, SecretBytes), _Nature.SECRET),
    ((Awaitable, AsyncIterator), _Nature.AWAITABLE),
    ((Iterator, io.IOBase), _Nature.ITERATOR),
)
_CONTAINERS: Final = frozenset(
    (_Nature.MAPPING, _Nature.SEQUENCE, _Nature.SET, _Nature.MODEL, _Nature.DATACLASS)
)


def _classify(cls: type) -> _Nature:
    for bases, nature in _NATURES:
        if issubclass(cls, bases):
            return nature
    return _Nature.DATACLASS if dataclasses.is_dataclass(cls) else _Nature.LEAF


_nature: Final[Callable[[type], _Nature]] = lru_cache(maxsize=1024)(_classify)


class ValueInspector(TreeInspector):
    """Checks one Python value before it is stored; ``typed`` as in ``encoding.encode``."""

    def __init__(self, what: str, max_depth: int, typed: Container[str] | bool = False) -> None:
        super().__init__(what, max_depth)
        self.typed = typed
        self._suspects: list[tuple[Path, Any]] = []
        self._sets: list[Path] = []

    def check_value(self, value: Any) -> None:
        """Refuse what JSON would lose or consume: iterators, bytes, cycles, colliding keys, depth, NaN, NUL."""
        try:
            self._visit(value, (), self.typed is True, ())
        except PayloadError:
            raise
        except Exception as error:  # noqa: BLE001  a container of the user's own, or one changed by another thread
            self.refuse((), f"could not be read ({explain(error)})", "pass plain dicts, lists and values")

    def _visit(self, value: Any, path: Path, typed: bool, above: tuple[int, ...]) -> None:
        nature = _nature(type(value))
        if nature in _CONTAINERS:
            if id(value) in above:
                self.refuse(path, "contains itself", "pass a tree; refer to repeated parts by an id")
            if len(above) >= self.max_depth:
                self.too_deep(path)
            if nature is _Nature.SET and len(value) > 1:
                self._sets.append(path)
            above = (*above, id(value))
            typed = typed or nature is _Nature.MODEL or nature is _Nature.DATACLASS
            for step, child in self._children(value, nature, path):
                named = not path and self._is_typed_key(step)
                self._visit(child, path + step, typed or named, above)
        elif nature is _Nature.TEXT:
            self.check_text(value, path)
        elif nature is _Nature.INTEGER:
            self.check_int(value, path)
        elif nature is _Nature.FLOAT:
            if value - value != 0.0:
                self._suspects.append((path, value)) if typed else self.not_finite(path)
        elif nature is _Nature.DECIMAL:
            if not value.is_finite():
                self.not_finite(path)
        elif nature is _Nature.ENUM:
            self._visit(value.value, path, typed, above)
        elif nature is _Nature.SECRET:
            self._suspects.append((path, value))
        elif nature is _Nature.ITERATOR:
            self.refuse(path, f"is {a_type(value)}, which can be read only once", _AS_LIST)
        elif nature is _Nature.AWAITABLE:
            self.refuse(path, f"is {a_type(value)} that was not awaited", AWAITED)
        elif nature is _Nature.BYTES and not typed:
            self.refuse(
                path, f"is {type(value).__name__}; JSON has no bytes and would return text", _AS_BASE64
            )

    def _is_typed_key(self, step: Path) -> bool:
        return not isinstance(self.typed, bool) and len(step) == 1 and step[0] in self.typed

    def _children(self, value: Any, nature: _Nature, path: Path) -> Iterator[tuple[Path, Any]]:
        if nature is _Nature.MAPPING:
            texts = self._key_texts(value, path)
            yield from (((text,), child) for text, child in zip(texts, value.values(), strict=True))
        elif nature is _Nature.SEQUENCE or nature is _Nature.SET:
            yield from (((index,), child) for index, child in enumerate(value))
        elif nature is _Nature.DATACLASS:
            names = [field.name for field in dataclasses.fields(value)]
            yield from (((name,), getattr(value, name)) for name in names if hasattr(value, name))
        elif isinstance(value, RootModel):
            yield (), value.root
        elif nature is _Nature.MODEL:
            held = value.__dict__
            for name, field in type(value).model_fields.items():
                if name in held and not field.exclude:
                    yield (name,), held[name]
            if extra := value.__pydantic_extra__:
                yield from self._children(extra, _Nature.MAPPING, path)

    def _key_texts(self, mapping: Mapping[Any, Any], path: Path) -> list[str]:
        texts: dict[str, None] = {}
        for key in mapping:
            plain = key.value if isinstance(key, enum.Enum) else key
            if isinstance(plain, bool) or not isinstance(plain, str | int | UUID | date):
                self.refuse(path, f"has a key of type {type(key).__name__}", _TEXT_KEYS)
            if isinstance(plain, str):
                self.check_text(plain, (*path, plain), "is a key that")
                text = str.__str__(plain)
            else:
                (text,) = to_jsonable_python({plain: None})
            if text in texts:
                self.refuse(
                    (*path, text),
                    "is the name of two keys once they are text",
                    "make the keys different as text",
                )
            texts[text] = None
        return list(texts)

    def blame(self, value: Any, error: Exception, path: Path = ()) -> NoReturn:
        """Refuse the innermost part of a value that cannot be written; ``error`` is what writing it raised."""
        nature = _nature(type(value))
        if nature in _CONTAINERS:
            for step, child in self._children(value, nature, path):
                try:
                    to_json(child)
                except Exception as inner:  # noqa: BLE001  a user's serializer may raise anything
                    self.blame(child, inner, path + step)
            problem = f"could not be turned into JSON ({explain(error)})"
            self.refuse(path, problem, f"correct {type(value).__name__}'s serializer or field values")
        if nature is _Nature.BYTES:
            self.refuse(path, f"is {type(value).__name__} and not UTF-8 text", _AS_BASE64)
        cure = "pass plain data (text, numbers, lists, dicts, dates, pydantic models, dataclasses) instead"
        self.refuse(path, f"is {a_type(value)}, which JSON cannot hold", cure)

    def compare(self, raw: bytes) -> bytes:
        """Check the JSON written for a value that ``check_value`` saw; return it ready to store, sets in a stable order."""
        try:
            tree = from_json(raw)
        except ValueError as error:  # a serializer that nests without end
            self.refuse(
                (),
                f"was written as JSON that cannot be read ({explain(error)})",
                FLATTEN,
                PayloadTooLargeError,
            )
        self.check_tree(tree)
        for path, value in self._suspects:
            stored = node_at(tree, path)
            if isinstance(value, float):
                if stored is None:
                    self.not_finite(path)
            elif stored == str(value) and value.get_secret_value():
                self.refuse(path, "is a secret, which would be stored as asterisks", _BY_REFERENCE)
        if not self._sets:
            return spell_floats(raw)
        # A set's order changes from process to process; the same arguments must be the same text (and hash).
        for path in reversed(self._sets):
            stored = node_at(tree, path)
            if isinstance(stored, list):
                stored.sort(key=to_json)
        return spell_floats(to_json(tree))

    def too_large(self, value: Any, size: int, max_bytes: int) -> NoReturn:
        """Refuse for size, naming the innermost field that makes up more than half of it."""
        path: Path = ()
        largest: tuple[int, Path, Any] | None = (size, (), value)
        while largest is not None and len(path) < 8:
            _, path, value = largest
            nature, largest = _nature(type(value)), None
            if nature not in _CONTAINERS:
                break
            for step, child in self._children(value, nature, path):
                try:
                    length = len(to_json(child))
                except Exception:  # noqa: BLE001, S112  written by a parent's serializer; its size alone is unknown
                    continue
                if length * 2 > size:
                    largest = (length, path + step, child)
                    break
        problem = f"makes it {size:,} bytes of JSON; the limit is {max_bytes:,}"
        self.refuse(
            path,
            problem,
            "store the data elsewhere and pass a reference (id, path, URL)",
            PayloadTooLargeError,
        )


def node_at(tree: Any, path: Path) -> Any:
    """The node at a path, or ``...`` when a serializer left it out or wrote another shape."""
    for step in path:
        try:
            tree = tree[step]
        except (LookupError, TypeError):
            return ...
    return tree
