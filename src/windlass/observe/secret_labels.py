"""Finds values whose name stands apart from them: in an element around the value (``<password>…</password>``), or in a field beside it
(``{"name": "password", "value": "…"}``, ``name: DB_PASSWORD`` and ``value: …`` on two lines).

Times grow with the length of the text, as in secret_text.py.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from windlass.observe.secret_text import HIDDEN, NAMED, value_region

NAMING = frozenset(
    ("name", "key", "field", "header", "param", "parameter", "variable", "var", "setting", "option")
)
"""Fields whose value is the name of another value."""
VALUED = frozenset(("value", "values", "val"))
"""The field of that other value."""

_QUOTE = r"""(?:\\*+["'])?+"""
_LABEL = rf"(?:{'|'.join(sorted(NAMING))}){_QUOTE}\s*+[:=]\s*+{_QUOTE}(?P<name>[\w.:-]++)"
_NAME_FIRST = re.compile(
    rf"(?<![\w-]){_LABEL}[^{{}}\[\]<>]{{0,100}}?(?<![\w-])(?P<value>values?|val)(?={_QUOTE}\s*+[:=])",
    re.IGNORECASE,
)
_VALUE_FIRST = re.compile(rf"(?<![\w-])(?:values?|val)(?={_QUOTE}\s*+[:=])", re.IGNORECASE)
_LABEL_BEHIND = re.compile(rf"{_QUOTE}[\s,;]*+{_QUOTE}{_LABEL}", re.IGNORECASE)

_LESS, _MORE = r"(?:<|&lt;|\\++u003c)", r"(?:>|&gt;|\\++u003e)"
_OPENED = re.compile(
    rf"{_LESS}(?P<name>[A-Za-z_][\w.:-]*+)(?P<rest>(?:\s(?:[^<>&\\]|&(?!gt;)|\\(?!\\*u003e))*+)?+){_MORE}",
    re.IGNORECASE,
)
_CLOSED = re.compile(rf"{_LESS}/(?P<name>[A-Za-z_][\w.:-]*+)", re.IGNORECASE)
_WORD = re.compile(r"[^\s<>&\"'\\]++")


def hide_labelled(text: str, is_secret: Callable[[str], bool]) -> str:
    """Replace values of fields beside a field with the name of a secret."""
    return _value_first(_name_first(text, is_secret), is_secret)


def _name_first(text: str, is_secret: Callable[[str], bool]) -> str:
    kept: list[str] = []
    done = place = 0
    while (label := _NAME_FIRST.search(text, place)) is not None:
        place = label.end("name")  # what stands between may be another label
        if is_secret(label["name"]) and (region := _region(text, label.start("value"))) is not None:
            kept += [text[done : region[0]], HIDDEN]
            done = place = region[1]
    return "".join([*kept, text[done:]]) if kept else text


def _value_first(text: str, is_secret: Callable[[str], bool]) -> str:
    kept: list[str] = []
    done = place = 0
    while (found := _VALUE_FIRST.search(text, place)) is not None:
        place = found.end()
        region = _region(text, found.start())
        if region is not None:
            place = region[1]
            label = _LABEL_BEHIND.match(text, place)
            if label is not None and is_secret(label["name"]):
                kept += [text[done : region[0]], HIDDEN]
                done = place
    return "".join([*kept, text[done:]]) if kept else text


def _region(text: str, start: int) -> tuple[int, int] | None:
    """The place of the value of the field whose name begins at ``start``; None if the value is empty."""
    named = NAMED.match(text, start)
    region = None if named is None else value_region(text, named)
    return region if region is not None and region[0] < region[1] else None


def hide_elements(text: str, is_secret: Callable[[str], bool]) -> str:
    """Replace what is inside an element of XML or HTML with the name of a secret; of one that is never closed, the word behind it."""
    kept: list[str] = []
    done = place = 0
    ends: dict[str, list[int]] | None = None
    while (opened := _OPENED.search(text, place)) is not None:
        place = opened.end()
        if not is_secret(opened["name"]) or opened["rest"].endswith("/"):
            continue
        if ends is None:
            ends = _ends(text)
        closing = ends.get(opened["name"].lower(), [])
        number = bisect_left(closing, place)
        if number < len(closing):
            end = closing[number]
        else:
            word = _WORD.match(text, place)
            end = place if word is None else word.end()
        if end > place:
            kept += [text[done:place], HIDDEN]
            done = place = end
    return "".join([*kept, text[done:]]) if kept else text


def _ends(text: str) -> dict[str, list[int]]:
    """Where elements are closed, by their names."""
    found: dict[str, list[int]] = {}
    for closed in _CLOSED.finditer(text):
        found.setdefault(closed["name"].lower(), []).append(closed.start())
    return found
