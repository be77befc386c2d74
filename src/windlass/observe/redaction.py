"""Keeps secrets out of log lines: by name (``password=…``), by value (literals it was told) and by look (tokens, URLs).

Over-eager on purpose: a hidden number costs a look into the database, a shown password costs a password.
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
"""Literals shorter than this are not looked for in text: they would shred it. Their names still hide them."""

PIECE = 12
"""So much of the beginning or the end of a long literal is hidden wherever it stands, with as much of the rest as is there: where a
text was cut, that is what is left of it."""

# The first group hides wherever it stands in a name (dbpassword), the second only as a word of its own: access_token and
# accessToken, but not prompt_tokens or tokenizer. A word that is counted or measured (token_count) is no secret, nor is a secretary.
_ANYWHERE = r"passw(?:or)?d|passphrase|secret(?!ar)|authorization|credential|api[_-]?key|private[_-]?key"
_MEASURE = r"(?![_-]?(?:counts?|limits?|totals?|usage|budget|length|size|types?|rate)(?:$|[^a-z]))"
_WORDS = rf"(?:token|auth|bearer|jwt|cookie|pwd|session[_-]?id){_MEASURE}"
_NAME = re.compile(rf"(?:{_ANYWHERE})|(?:^|[^a-z])(?:{_WORDS})(?:$|[^a-z])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# No part of it can match the same text in two ways, so a hostile message costs no more than a long one.
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
    """What must not be shown. Values may be added while it is in use; safe to share between threads.

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
        """Hide these texts from here on, also as they look quoted in a URL, in JSON or in ``repr``."""
        with self._lock:
            self._given.update(value for value in values if len(value) >= SHORTEST)
            self._look_for()

    def forget(self, *values: str) -> None:
        """Hide these texts no longer, each once less: whoever else added it still has it hidden."""
        with self._lock:
            self._given -= Counter(values)
            self._look_for()

    def _look_for(self) -> None:
        looks = {look for value in self._given for look in _looks(value)}
        by_length = sorted(looks, key=lambda look: (-len(look), look))
        self.longest = len(by_length[0]) if by_length else 0
        self._find = re.compile("|".join(map(re.escape, by_length))) if by_length else None
        self._long = tuple(look for look in by_length if len(look) >= 2 * PIECE)

    def add_url(self, url: str) -> None:
        """Hide the password of a URL, wherever it shows up."""
        try:
            password = urlsplit(url).password
        except ValueError:  # not a URL that can be read, so nobody will log in with it
            return
        if password:
            self.add(password, unquote(password))

    def handed_on(self) -> dict[str, list[str]]:
        """What another process needs to hide the same: arguments for ``Secrets``."""
        with self._lock:
            return {"values": sorted(self._given), "names": sorted(self._names)}

    def is_secret(self, name: str) -> bool:
        """Whether the value of a field of this name is never shown."""
        return name.lower() in self._names or bool(_NAME.search(_CAMEL.sub("_", name[:200])))

    def hide_values(self, text: str) -> str:
        """The text with the values it was told replaced, and what is left of those that were cut; nothing else."""
        find = self._find
        if find is None:
            return text
        text = find.sub(HIDDEN, text)
        for look in self._long:
            if look[:PIECE] in text:
                text = _without_beginnings(text, look)
            if look[-PIECE:] in text:
                text = _without_beginnings(text[::-1], look[::-1])[::-1]
        return text

    def holds(self, text: str) -> bool:
        """Whether one of the values it was told is in a text."""
        return self._find is not None and self._find.search(text) is not None

    def hide(self, text: str) -> str:
        """The text with everything secret in it replaced."""
        text = self.hide_values(text)
        if "=" in text or ":" in text:
            text = without_secrets(text) if "://" in text else text
            text = _COOKIES.sub(rf"\1{HIDDEN}", text)
            text = _NAMED_VALUE.sub(rf"\g<name>\g<is>{HIDDEN}", text)
        if "eyJ" in text:
            text = _JWT.sub(HIDDEN, text)
        return _BEARER.sub(rf"\1 {HIDDEN}", text)


def _without_beginnings(text: str, look: str) -> str:
    """The text without pieces that a look begins with."""
    kept, place = [], 0
    while (start := text.find(look[:PIECE], place)) >= 0:
        kept += [text[place:start], HIDDEN]
        place = start + PIECE
        while place < len(text) and place - start < len(look) and text[place] == look[place - start]:
            place += 1
    return "".join([*kept, text[place:]])


def _looks(value: str) -> set[str]:
    """A secret as it looks in text: as it is, in a URL, in JSON, in ``repr``."""
    return {
        value,
        quote(value, safe=""),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    }
