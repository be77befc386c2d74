"""Goes through the text of a filter, and raises the error with the place."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from windlass.control.filters.terms import NAME
from windlass.errors import FilterError

_ESCAPE = re.compile(r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})")
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


class Scanner:
    """A text and a place in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    @property
    def is_over(self) -> bool:
        return self.place >= len(self.text)

    def peek(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.place : self.place + 1]

    def skip_spaces(self) -> None:
        while self.peek().isspace():
            self.place += 1

    def fail(self, position: int, length: int, found: str, allowed: str, cure: str) -> NoReturn:
        raise FilterError(self.text, position, length, found, allowed, cure)

    def check_characters(self) -> None:
        """Refuse characters that no database can store."""
        for place, sign in enumerate(self.text):
            if sign == "\0" or "\ud800" <= sign <= "\udfff":
                self._unstorable(place, 1, sign)

    def name(self) -> str:
        """A key, or a name of a path; empty if there is none here."""
        found = NAME.match(self.text, self.place)
        if found is None:
            return ""
        self.place = found.end()
        return found[0]

    def bare(self) -> str:
        """A value without quotes, up to a space or a comma; empty if there is none here."""
        start = self.place
        while not self.is_over and not (sign := self.peek()).isspace() and sign != ",":
            if sign == "'" and self.place == start:
                self.fail(
                    start,
                    1,
                    "a single quote begins the value",
                    "a value, in double quotes if it has spaces",
                    'Use double quotes: "…".',
                )
            if sign in '"\\':
                what = "a quote" if sign == '"' else "a backslash"
                self.fail(
                    self.place,
                    1,
                    f"{what} stands inside the value",
                    "a value in quotes, with escapes",
                    f"Put the whole value in quotes, and write \\{sign} for {what}.",
                )
            if not sign.isprintable():
                self.fail(
                    self.place,
                    1,
                    f"the character U+{ord(sign):04X} cannot be seen",
                    "a value of visible characters",
                    f"Remove the character, or put the value in quotes and write {json.dumps(sign)[1:-1]}.",
                )
            self.place += 1
        return self.text[start : self.place]

    def quoted(self, what: str) -> str:
        """A text in double quotes, without them."""
        start = self.place
        parts: list[str] = []
        self.place += 1
        while self.peek() != '"':
            if self.is_over:
                self.fail(
                    start,
                    len(self.text) - start,
                    f"{what} has no closing quote",
                    "a text in double quotes",
                    'Write " at its end; a quote inside it is \\".',
                )
            if self.peek() == "\\":
                parts.append(self._escaped())
            else:
                parts.append(self.peek())
                self.place += 1
        self.place += 1
        return "".join(parts)

    def _escaped(self) -> str:
        start = self.place
        found = _PAIR.match(self.text, start) or _ESCAPE.match(self.text, start)
        if found is None:
            wrong = self.text[start : start + 2]
            self.fail(
                start,
                len(wrong),
                f"{wrong!r} is no escape",
                'one of \\", \\\\, \\n, \\r, \\t, \\b, \\f, \\/ and \\uXXXX',
                "Write \\\\ for a backslash.",
            )
        sign = str(json.loads(f'"{found[0]}"'))
        if sign == "\0" or "\ud800" <= sign <= "\udfff":
            self._unstorable(start, len(found[0]), sign)
        self.place = found.end()
        return sign

    def _unstorable(self, place: int, length: int, sign: str) -> NoReturn:
        self.fail(
            place,
            length,
            f"the character U+{ord(sign):04X} cannot be stored in any job",
            "a text of other characters",
            "Remove the character.",
        )
