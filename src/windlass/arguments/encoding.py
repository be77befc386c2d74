"""Arguments, results and outputs to JSON text and back, within limits.

What ``encode`` returns can be stored in PostgreSQL ``jsonb`` and in SQLite, and ``decode`` gives back exactly the JSON
form of what went in; a value that cannot keep that promise is refused with a ``PayloadError`` that names the field. The
choices (docs/concepts/payloads.md gives the reasons):

- NaN, infinities, NUL characters, lone surrogates, bytes, secrets, iterators and open files are refused;
- integers have up to 1,000 digits and keep them all (inside SQLite's own JSON functions those over 64 bits are floats);
- floats stay floats of the same value, on both databases (only jsonb loses the sign of -0.0);
- keys are text, or int, UUID, date or Enum that become text; two keys with the same text are refused, also when reading;
- sets become sorted lists, so that equal arguments are equal text;
- models are written by field name, without computed fields, so that they can be read back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json, to_json

from windlass.arguments.json_checks import HAS_EXPONENT, INT_BOUND, Path, TreeInspector, explain
from windlass.arguments.limits import DEFAULT_LIMITS, LARGEST, Limits
from windlass.arguments.value_checks import ValueInspector
from windlass.errors import PayloadError, PayloadTooLargeError

_INERT: Final = frozenset({str, bool, type(None), datetime, date, time, timedelta, UUID})


@dataclass(frozen=True, slots=True, eq=False)
class Writer:
    """How values become JSON bytes; ``is_bare`` promises that plain values are written as they are, by no serializer."""

    write: Callable[[Any], bytes]
    is_bare: bool


BY_RUNTIME_TYPE: Final = Writer(partial(to_json, by_alias=False, round_trip=True), is_bare=True)


def encode(
    value: Any,
    *,
    what: str,
    limits: Limits = DEFAULT_LIMITS,
    writer: Writer = BY_RUNTIME_TYPE,
    typed: Container[str] | bool = False,
) -> str:
    """Write a value as compact JSON text, or raise ``PayloadError`` naming the field that cannot be stored.

    The first word of ``what`` is the root of that name: ``what="args of app.welcome"`` gives ``args.user.email``.
    ``writer`` serialises by a schema instead of by runtime type; ``typed`` says that the schema brings the types back (or
    at which top-level keys it does), so that bytes may be stored there, as UTF-8 text.

    >>> encode({"id": 7, "tags": ("a", "b")}, what="args")
    '{"id":7,"tags":["a","b"]}'
    """
    # Ordinary values: one check of the types, one write in C, one search of the text: 2.0 µs for 113 bytes.
    # Taking the careful way for everything took 18 µs; the standard library's encoder, without any check, 2.4 µs.
    if _is_ordinary(value, limits.max_depth):
        try:
            raw = writer.write(value)
        except Exception:  # noqa: BLE001, S110  a lone surrogate, a broken tzinfo: found below
            pass
        else:
            if len(raw) > limits.max_bytes:
                ValueInspector(what, limits.max_depth).too_large(value, len(raw), limits.max_bytes)
            if b"\\u0000" not in raw and (writer.is_bare or _is_harmless(raw, limits.max_depth)):
                return raw.decode()
    inspector = ValueInspector(what, limits.max_depth, typed)
    inspector.check_value(value)
    try:
        raw = writer.write(value)
    except Exception as error:  # noqa: BLE001  a user's serializer may raise anything
        inspector.blame(value, error)
    if len(raw) <= limits.max_bytes:
        raw = inspector.compare(raw)
    if len(raw) > limits.max_bytes:
        inspector.too_large(value, len(raw), limits.max_bytes)
    return raw.decode()


def _is_ordinary(value: Any, room: int) -> bool:
    """Whether a value is made of exact JSON types (and dates, UUIDs), within ``room`` levels, with nothing to refuse.

    Text is not searched: NUL and lone surrogates show in the JSON. This is the hot path: 0.1 µs per value.
    """
    cls = type(value)
    if cls is dict:
        if room <= 0:
            return False
        for key in value:
            if type(key) is not str:
                return False
        values = value.values()
    elif cls is list or cls is tuple:
        if room <= 0:
            return False
        values = value
    else:
        values = (value,)
    for item in values:
        cls = type(item)
        if cls in _INERT:
            continue
        if cls is int:
            if -INT_BOUND < item < INT_BOUND:
                continue
        elif cls is float:
            if -1e16 < item < 1e16:  # false for NaN; from 1e16 on JSON has an exponent, see spell_floats
                continue
        elif (cls is dict or cls is list or cls is tuple) and _is_ordinary(item, room - 1):
            continue
        return False
    return True


def _is_harmless(raw: bytes, max_depth: int) -> bool:
    """Whether a user's serializer surely added no depth and no large float; a false alarm only costs time."""
    return raw.count(b"[") + raw.count(b"{") <= max_depth and not HAS_EXPONENT(raw)


def decode(
    text: str | bytes, *, what: str, limits: Limits | None = None, verdict: str = "cannot be stored"
) -> Any:
    """Read JSON; ``PayloadError`` when it is broken or holds what ``encode`` would refuse.

    A key that appears twice in one object is refused: readers disagree on which one counts. Without ``limits`` only the
    largest depth is checked, so that lowered limits do not make stored rows unreadable. ``verdict`` is for text that was
    stored already.
    """
    inspector = TreeInspector(what, (limits or LARGEST).max_depth, verdict=verdict)
    if not isinstance(text, str | bytes):
        inspector.refuse((), f"is {type(text).__name__}, not JSON text", "pass str or bytes")
    size = len(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")) if limits else 0
    if limits and size > limits.max_bytes:
        problem = f"is {size:,} bytes of JSON; the limit is {limits.max_bytes:,}"
        inspector.refuse((), problem, "send less, or a reference", PayloadTooLargeError)
    try:
        tree = from_json(text)  # stops by itself at 200 levels, long before the stack ends
    except (ValueError, TypeError) as error:  # TypeError: text with a lone surrogate
        kind = PayloadTooLargeError if "recursion limit" in str(error) else PayloadError
        inspector.refuse((), f"is not JSON ({explain(error)})", "send one valid JSON value in UTF-8", kind)
    nul = "\\u0000" in text if isinstance(text, str) else b"\\u0000" in text
    if nul or not _is_ordinary(tree, inspector.max_depth):
        inspector.check_tree(tree)
    if _count_keys(tree) != _count_colons(text):
        _check_duplicates(_pairs(text), (), inspector)
    return tree


def body_hash(kind: str, canonical_json: str | bytes) -> str:
    """A SHA-256 in hex of kind and arguments, equal for equal bodies whichever database the text came back from.

    Key order, white space and the spelling of numbers (``1e+22``, ``-0.0``) do not count: jsonb changes all three.
    Hence 1 and 1.0 are the same body.
    """
    try:
        body = json.loads(canonical_json, parse_float=_exact_number)
        text = json.dumps([kind, body], sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        TreeInspector("args", DEFAULT_LIMITS.max_depth).refuse(
            (), f"is not JSON ({explain(error)})", "hash what encode() wrote"
        )
    return hashlib.sha256(text.encode()).hexdigest()


def _exact_number(text: str) -> int | float:
    """jsonb writes the float 1e+22 as an integer, so floats without a fraction are integers here."""
    number = Decimal(text)
    if abs(number.adjusted()) > 400:  # no float is that large: let it overflow (refused) or become zero
        return float(text)
    return int(number) if number == number.to_integral_value() else float(text)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object that still has its duplicate keys."""


def _pairs(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_Pairs)


def _count_keys(tree: Any) -> int:
    if type(tree) is dict:
        return len(tree) + sum(_count_keys(child) for child in tree.values() if type(child) in (dict, list))
    if type(tree) is list:
        return sum(_count_keys(child) for child in tree if type(child) in (dict, list))
    return 0


def _count_colons(text: str | bytes) -> int:
    """At least the number of keys in the text; equal to it unless a string holds a colon after a quote or a space."""
    if isinstance(text, str):
        return text.count('":') + sum(text.count(space) for space in (" :", "\n:", "\t:", "\r:"))
    return text.count(b'":') + sum(text.count(space) for space in (b" :", b"\n:", b"\t:", b"\r:"))


def _check_duplicates(node: Any, path: Path, inspector: TreeInspector) -> None:
    if isinstance(node, _Pairs):
        seen = set()
        for key, child in node:
            if key in seen:
                inspector.refuse((*path, key), "appears twice in one object", "give each key once")
            seen.add(key)
            _check_duplicates(child, (*path, key), inspector)
    elif isinstance(node, list):
        for index, child in enumerate(node):
            _check_duplicates(child, (*path, index), inspector)
