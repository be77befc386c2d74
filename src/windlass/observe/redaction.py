"""Hides secrets in log lines: by name (``password=…``), by value (given literals) and by form (tokens, URLs).

It hides too much rather than too little: a hidden number can be read in the database, a shown password is lost. Which names are names of
secrets is in secret_names.py, the forms of names and values in a text are in secret_text.py and secret_labels.py.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from windlass.observe import secret_labels, secret_text
from windlass.observe.secret_labels import NAMING
from windlass.observe.secret_names import LONGEST, STEMS, names_secret
from windlass.observe.secret_text import HIDDEN as HIDDEN

SHORTEST = 4
"""Shorter literals are not hidden in text: they would match too often. Their names still hide them."""

PIECE = 12
"""Characters of the beginning or the end of a long literal that are hidden, with as much of the rest as follows: a cut text may contain
only such a piece."""

Redaction = Callable[[Any], Any]
"""A function of the application that hides more: it gets a text, or JSON-like values, in which secrets are hidden, and returns the value to show."""


class Secrets:
    """Values and names that must not be shown. Values may be added at any time, from any thread.

    >>> secrets = Secrets(["hunter2"])
    >>> secrets.hide("login with hunter2 failed")
    'login with *** failed'
    """

    def __init__(self, values: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in names}
        self._stems = (*STEMS, *self._names)
        self.own: Redaction | None = None
        """A function of the application, applied after everything else (``apply_own``)."""
        self._lock = threading.Lock()
        self._given: Counter[str] = Counter()
        self._find: re.Pattern[str] | None = None
        self._long: tuple[str, ...] = ()
        self.longest = 0
        self.add(*values)

    def add(self, *values: str) -> None:
        """Hide these texts from here on, also quoted in a URL, in JSON or in ``repr``."""
        with self._lock:
            self._given.update(value for value in values if len(value) >= SHORTEST)
            self._compile()

    def forget(self, *values: str) -> None:
        """Undo one ``add`` of these texts: a text that was added several times stays hidden."""
        with self._lock:
            self._given -= Counter(values)
            self._compile()

    def _compile(self) -> None:
        spellings = {spelling for value in self._given for spelling in _spellings(value)}
        by_length = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
        self.longest = len(by_length[0]) if by_length else 0
        self._find = re.compile("|".join(map(re.escape, by_length))) if by_length else None
        self._long = tuple(spelling for spelling in by_length if len(spelling) >= 2 * PIECE)

    def add_url(self, url: str) -> None:
        """Hide the password of a URL in all texts."""
        try:
            password = urlsplit(url).password
        except ValueError:  # an invalid URL, which cannot be used to log in
            return
        if password:
            self.add(password, unquote(password))

    def as_arguments(self) -> dict[str, list[str]]:
        """Arguments for ``Secrets`` in another process, to hide the same."""
        with self._lock:
            return {"values": sorted(self._given), "names": sorted(self._names)}

    def is_secret(self, name: str) -> bool:
        """Whether the value of a field of this name is never shown."""
        return name.lower() in self._names or names_secret(name[-LONGEST:])

    def hide_values(self, text: str) -> str:
        """Replace the given values in a text, and pieces of those that were cut; nothing else."""
        find = self._find
        if find is None:
            return text
        text = find.sub(HIDDEN, text)
        for spelling in self._long:
            if spelling[:PIECE] in text:
                text = _without_beginnings(text, spelling)
            if spelling[-PIECE:] in text:
                text = _without_beginnings(text[::-1], spelling[::-1])[::-1]
        return text

    def holds(self, text: str) -> bool:
        """Whether a text contains one of the given values."""
        return self._find is not None and self._find.search(text) is not None

    def hide(self, text: str) -> str:
        """Replace all secrets in a text."""
        text = secret_text.hide_tokens(self.hide_values(text))
        lowered = text.lower()
        for stem in self._stems:
            if stem in lowered:
                text = secret_text.hide_private_keys(text)
                text = secret_text.hide_named(text, self.is_secret)
                if "val" in lowered:
                    text = secret_labels.hide_labelled(text, self.is_secret)
                if ">" in text or "&gt;" in text or "u003" in lowered:
                    text = secret_labels.hide_elements(text, self.is_secret)
                break
        if "://" in text:
            text = secret_text.hide_user_info(text)
        return secret_text.hide_bearer(text) if "bearer" in lowered else text

    def is_pair(self, items: Sequence[Any]) -> bool:
        """Whether these are the name of a secret and its value."""
        return len(items) == 2 and isinstance(items[0], str) and self.is_secret(items[0])

    def is_labelled(self, fields: Iterable[tuple[str, Any]]) -> bool:
        """Whether one of these fields names a secret whose value is in a field beside it: ``{"name": "password", "value": …}``."""
        return any(
            name.lower() in NAMING and isinstance(value, str) and self.is_secret(value)
            for name, value in fields
        )

    def apply_own(self, value: Any) -> Any:
        """Apply the application's own function, if there is one."""
        return value if self.own is None else applied(self.own, value)


def applied(own: Redaction, value: Any) -> Any:
    """The result of an application's own function; if it raises, all of the value is hidden."""
    try:
        return own(value)
    except Exception:  # noqa: BLE001  neither a log line nor a response may fail, or show the value
        return HIDDEN


def _without_beginnings(text: str, spelling: str) -> str:
    """Replace pieces of a text that are a beginning of the spelling."""
    kept, place = [], 0
    while (start := text.find(spelling[:PIECE], place)) >= 0:
        kept += [text[place:start], HIDDEN]
        place = start + PIECE
        while place < len(text) and place - start < len(spelling) and text[place] == spelling[place - start]:
            place += 1
    return "".join([*kept, text[place:]])


def _spellings(value: str) -> set[str]:
    """The spellings of a secret in text: as it is, in a URL, in JSON, in ``repr``."""
    return {
        value,
        quote(value, safe=""),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    }
