"""``redact``: JSON-like values without secrets, for everything that is shown outside the process: arguments, results, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.observe.redaction import HIDDEN, Redaction, Secrets, applied
from windlass.observe.safe_text import safe_str
from windlass.observe.secret_labels import VALUED

MAX_DEPTH = 100
"""Containers inside each other; what is deeper is hidden."""

_BUILT_IN = Secrets()


def redact(value: Any, *, own: Redaction | None = None) -> Any:
    """Return a new structure in which secrets are hidden by the names of their fields, and in texts as in log lines.

    Mappings become dicts, and lists, tuples and sets become lists. Numbers, booleans and None stay; all other values become text. ``own`` is
    a function of the application that is applied to the result; if it raises, the whole value is hidden.

    >>> redact({"user": "bob", "password": "hunter2", "note": "token=abc", "token_count": 7})
    {'user': 'bob', 'password': '***', 'note': 'token=***', 'token_count': 7}
    """
    made = _Redacted(_BUILT_IN).of(value)
    return made if own is None else applied(own, made)


class _Redacted:
    """Converts one value."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._inside: set[int] = set()

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._secrets.hide(safe_str(value))
        if len(self._inside) >= MAX_DEPTH or id(value) in self._inside:
            return HIDDEN
        self._inside.add(id(value))
        try:
            return self._mapping(value) if isinstance(value, Mapping) else self._items(list(value))
        finally:
            self._inside.discard(id(value))

    def _mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        items = [(safe_str(key), item) for key, item in value.items()]
        is_labelled = self._secrets.is_labelled(items)
        return {
            self._secrets.hide(name): HIDDEN
            if self._secrets.is_secret(name) or (is_labelled and name.lower() in VALUED)
            else self.of(item)
            for name, item in items
        }

    def _items(self, items: list[Any]) -> list[Any]:
        if self._secrets.is_pair(items):
            return [self._secrets.hide(items[0]), HIDDEN]
        return [self.of(item) for item in items]
