"""Hides secrets in log lines: by name (``password=…``), by value (given literals) and by form (tokens, URLs).

It hides too much rather than too little: a hidden number can be read in the database, a shown password is lost.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote, unquote, urlsplit

from windlass.urls import without_secrets

HIDDEN = "***"
SHORTEST = 4
"""Shorter literals are not hidden in text: they would match too often. Their names still hide them."""

PIECE = 12
"""Characters of the beginning or the end of a long literal that are hidden, with as much of the rest as follows: a cut text may contain
only such a piece."""

# The first group hides anywhere in a name (dbpassword), the second only as a separate word: access_token and accessToken, but not
# prompt_tokens or tokenizer. A word that is counted or measured (token_count) is no secret, nor is a secretary.
_ANYWHERE = r"passw(?:or)?d|passphrase|secret(?!ar)|authorization|credential|api[_-]?key|private[_-]?key"
_MEASURE = r"(?![_-]?(?:counts?|limits?|totals?|usage|budget|length|size|types?|rate)(?:$|[^a-z]))"
_WORDS = rf"(?:token|auth|bearer|jwt|cookie|pwd|session[_-]?id){_MEASURE}"
_NAME = re.compile(rf"(?:{_ANYWHERE})|(?:^|[^a-z])(?:{_WORDS})(?:$|[^a-z])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# No part of it matches the same text in two ways, so a hostile message takes no longer than a long one.
_NAMED_VALUE = re.compile(
    rf"""(?P<name>(?:(?i:{_ANYWHERE})[\w-]{{0,20}} | (?<![a-zA-Z])(?i:{_WORDS}) | (?<=[a-z])(?:Token|Auth|Jwt|Cookie|Pwd)))
         (?P<is>["']?\s{{0,3}}(?:=|:(?!//))\s{{0,3}})
         (?: [bBrRuU]{{0,2}}"(?:[^"\\]|\\.)*"?
           | [bBrRuU]{{0,2}}'(?:[^'\\]|\\.)*'?
           | [\[({{][^\])}}]*[\])}}]?
           | (?:(?i:bearer|basic|digest|token)\s+)?[^\s,;&"')\]}}]+ )""",
    re.VERBOSE | re.DOTALL,
)
_COOKIES = re.compile(r"(cookie\s{0,3}:\s{0,3})[^\r\n\"']+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
_JWT = re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]*){0,4}")


class Secrets:
    """Values and names that must not be shown. Values may be added at any time, from any thread.

    >>> secrets = Secrets(["hunter2"])
    >>> secrets.hide("login with hunter2 failed")
    'login with *** failed'
    """

    def __init__(self, values: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in names}
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
        return name.lower() in self._names or bool(_NAME.search(_CAMEL.sub("_", name[:200])))

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
        text = self.hide_values(text)
        if "=" in text or ":" in text:
            text = without_secrets(text) if "://" in text else text
            text = _COOKIES.sub(rf"\1{HIDDEN}", text)
            text = _NAMED_VALUE.sub(rf"\g<name>\g<is>{HIDDEN}", text)
        if "eyJ" in text:
            text = _JWT.sub(HIDDEN, text)
        return _BEARER.sub(rf"\1 {HIDDEN}", text)


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
