"""Any value as text that is safe on one line: never raises, never long, no control characters, no secrets.

Log lines contain values of users, handlers and exceptions. Each call makes one line that a terminal shows as text, and that cannot be
read as two lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from windlass.observe.redaction import HIDDEN, Secrets
from windlass.observe.secret_labels import VALUED

LIMIT = 2048
"""Characters of one value that are shown."""

MAX_ITEMS, MAX_DEPTH = 50, 4

# Control characters (C0, DEL, C1: all that begins an ANSI escape), line and paragraph separators, characters that
# change the direction of text or are invisible, tags, and halves of surrogate pairs, which no stream can encode. ZWJ and ZWNJ stay: languages need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    """Escape all characters that could move the cursor: ``\\n``, ``\\x1b``, ``\\u2028``."""
    return _UNSAFE.sub(_escape, text)


def json_escaped(line: str) -> str:
    """Escape the same characters in a line of JSON, as JSON does, so that readers get the original text."""
    return _UNSAFE.sub(_escape_json, line)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(found: re.Match[str]) -> str:
    raw = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{raw[place]:02x}{raw[place + 1]:02x}" for place in range(0, len(raw), 2))


def cut(text: str, limit: int = LIMIT) -> str:
    """Return the beginning of a long text, and how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def safe_str(value: object) -> str:
    """Return ``str(value)``, or the name of the error that it raised."""
    try:
        text = str(value)
        return text if type(text) is str else str.__str__(text)
    except Exception as error:  # noqa: BLE001  the value's own __str__
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def shown(value: object, secrets: Secrets, limit: int = LIMIT) -> str:
    """Return a value as text: secrets are hidden before it is cut, so that no part of a secret is left at the end."""
    text = safe_str(value)
    if len(text) <= limit * 8:
        return cut(secrets.hide(text), limit)
    missing = len(text) - limit
    head = secrets.hide(text[: limit * 8])
    return f"{head[: min(limit, max(0, len(head) - secrets.longest))]}… ({missing:,} more characters)"


def shown_end(text: str, secrets: Secrets, limit: int) -> str:
    """Return the end of a text, where a traceback has its error."""
    if len(text) <= limit:
        return secrets.hide(text)
    tail = secrets.hide(text[-limit * 4 :])
    tail = tail[-limit:] if len(tail) > limit + secrets.longest else tail[secrets.longest :]
    return f"({len(text) - limit:,} characters before) …{tail}"


def plain(value: object, secrets: Secrets, limit: int = LIMIT) -> Any:
    """Return a value as JSON of about ``limit`` characters at most; secrets are hidden at any depth."""
    try:
        return _Plain(secrets, limit).of(value, MAX_DEPTH)
    except Exception as error:  # noqa: BLE001  a mapping or sequence of the user's own
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


class _Plain:
    """Converts one value to JSON, within the characters that are left."""

    def __init__(self, secrets: Secrets, limit: int) -> None:
        self._secrets = secrets
        self._limit = self._left = limit

    def of(self, value: object, depth: int) -> Any:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, int) and -(2**63) <= value < 2**64:
            return int.__index__(value)
        if isinstance(value, float) and value - value == 0.0:  # neither NaN nor infinite
            return float.__float__(value)
        if depth and isinstance(value, Mapping):
            return self._mapping(value, depth)
        if depth and isinstance(value, list | tuple | set | frozenset):
            return self._sequence(value, depth)
        text = shown(value, self._secrets, max(0, min(self._limit, self._left)))
        self._left -= len(text)
        return text

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        items = [(cut(safe_str(key), 200), item) for key, item in islice(value.items(), MAX_ITEMS)]
        is_labelled = self._secrets.is_labelled(items)
        for name, item in items:
            if self._left <= 0:
                break
            self._left -= len(name)
            is_hidden = self._secrets.is_secret(name) or (is_labelled and name.lower() in VALUED)
            made[self._secrets.hide(name)] = HIDDEN if is_hidden else self.of(item, depth - 1)
        if len(made) < len(value):
            made["…"] = f"{len(value) - len(made):,} more"
        return made

    def _sequence(self, value: Collection[Any], depth: int) -> list[Any]:
        if isinstance(value, list | tuple) and self._secrets.is_pair(value):
            return [self.of(value[0], 0), HIDDEN]
        made: list[Any] = []
        for item in islice(value, MAX_ITEMS):
            if self._left <= 0:
                break
            made.append(self.of(item, depth - 1))
            self._left -= 4
        if len(made) < len(value):
            made.append(f"… {len(value) - len(made):,} more")
        return made
