"""Reads the text of a filter.

filter  = [ term { space term } ]
term    = [ "-" ] key ":" ( value { "," value } | ( "<" | "<=" | ">" | ">=" ) value )
key     = a name of KEYS | "args" "." name { "." name }
value   = characters without spaces, commas and quotes, of some keys with "*" at the end | quoted
quoted  = '"' { character | escape } '"', an escape being one of JSON's
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from windlass.control.filters import hints, values
from windlass.control.filters.keys import KEYS, NAMES, Key
from windlass.control.filters.scanner import Scanner
from windlass.control.filters.terms import Term, Value, Word

MAX_TEXT: Final = 40_000
MAX_TERMS: Final = 50
MAX_VALUES: Final = 1000
MAX_PATH: Final = 16
MAX_INDEXES: Final = 3
"""How many names of a path may be numbers; each may be a place in a list or a name in an object."""
_OPS = ("<", "<=", ">", ">=")
_SIGNS = re.compile(r"[<>=!]+")


def parse(text: str) -> Iterator[Term]:
    """The terms of a filter in order; ``FilterError`` for a text that is none."""
    return _Parser(text).terms()


def _is_odd_number(segment: str) -> bool:
    """Whether the databases disagree on what a name of a path is: one reads -1 and 007 as places in a list, the other does not."""
    return (
        re.fullmatch(r"\s*[+-]?[0-9]+", segment) is not None
        and re.fullmatch(r"0|[1-9][0-9]*", segment) is None
    )


class _Parser(Scanner):
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        if len(text) > MAX_TEXT:
            self.fail(
                MAX_TEXT,
                len(text) - MAX_TEXT,
                f"the filter has {len(text)} characters",
                f"a text of at most {MAX_TEXT} characters",
                "Split it into several filters.",
            )
        self.check_characters()

    def terms(self) -> Iterator[Term]:
        count = 0
        self.skip_spaces()
        while not self.is_over:
            count += 1
            if count > MAX_TERMS:
                self.fail(
                    self.place,
                    len(self.text) - self.place,
                    f"term {count} begins here",
                    f"a filter of at most {MAX_TERMS} terms",
                    "Join values of one key by commas: kind:a,b.",
                )
            yield self._term()
            self.skip_spaces()

    def _term(self) -> Term:
        is_negated = self._negation()
        start = self.place
        name = self.name()
        if not name:
            self._no_key()
        is_path = self.peek() == "."
        if self.peek() != ":" and not is_path:
            self._no_colon(start, name)
        key = self._known(start, name, is_path)
        path = self._path(start) if is_path else ()
        if name == "args" and not path:
            self.fail(
                start,
                len(name),
                "args has no path",
                "args, a dot and the name of an argument",
                "Write the name of the argument: args.county:Harju.",
            )
        if self.peek() != ":":
            self._no_colon(start, self.text[start : self.place])
        self.place += 1
        return self._condition(key, self.text[start : self.place - 1], path, is_negated)

    def _negation(self) -> bool:
        if self.peek() != "-":
            return False
        start = self.place
        self.place += 1
        if self.peek() == "-":
            self.fail(
                start,
                2,
                "two minus signs stand before the key",
                "one minus sign at most",
                "Remove both, or one of them.",
            )
        if self.is_over or self.peek().isspace():
            self.fail(
                start,
                1,
                "a minus sign stands alone",
                "followed by a key, without a space",
                "Write -state:failed for jobs that are not failed.",
            )
        return True

    def _known(self, start: int, name: str, has_path: bool) -> Key:
        key = KEYS.get(name)
        if key is None:
            self.fail(
                start,
                len(name),
                f"{name!r} is no key",
                f"one of {', '.join(NAMES)}",
                hints.for_key(name, has_path),
            )
        if has_path and name != "args":
            self.fail(
                self.place,
                1,
                f"a dot follows the key {name}",
                "a colon; only args has a path",
                f"Write {name}:VALUE, or args.{name}:VALUE for an argument of that name.",
            )
        return key

    def _path(self, start: int) -> tuple[str, ...]:
        path: list[str] = []
        while self.peek() == ".":
            dot = self.place
            self.place += 1
            at = self.place
            segment = self.quoted("a name of the path") if self.peek() == '"' else self.name()
            if not segment:
                self.fail(
                    dot,
                    1,
                    "no name follows the dot",
                    "a name, in quotes if it has dots",
                    "Write a name after each dot: args.user.id:7.",
                )
            if any(sign in '"\\' for sign in segment):
                self.fail(
                    at,
                    self.place - at,
                    "a name of the path has a quote or a backslash",
                    "a name without quotes and backslashes",
                    "Filter by another argument.",
                )
            path.append(segment)
        if any(_is_odd_number(part) for part in path[1:]):
            self.fail(
                start,
                self.place - start,
                "the path has a number that is no place in a list",
                "a path whose numbers are written as 0, 1, 2 and so on",
                "Write the number without a sign and without zeros before it.",
            )
        if len(path) > MAX_PATH or sum(part.isdecimal() for part in path[1:]) > MAX_INDEXES:
            self.fail(
                start,
                self.place - start,
                "the path is too long",
                f"at most {MAX_PATH} names, {MAX_INDEXES} of them numbers",
                "Filter by a value that is less deep.",
            )
        return tuple(path)

    def _condition(self, key: Key, name: str, path: tuple[str, ...], is_negated: bool) -> Term:
        op = self._op(key, name)
        if not op and not key.is_listed:
            at = self.place
            text = self.bare()
            self.fail(
                at if text else at - 1,
                max(1, len(text)),
                f"{name} has no comparison",
                key.allowed,
                f"Write {name}:>{text} or {name}:<{text}."
                if text
                else f"Write a comparison, such as {key.example}.",
            )
        found = [self._value(key, name, op)]
        while self.peek() == ",":
            comma = self.place
            self.place += 1
            if op:
                self.fail(
                    comma,
                    1,
                    "a list follows a comparison",
                    "one value behind a comparison",
                    f"Write one term for each comparison: {name}:{op}VALUE.",
                )
            if self.is_over or self.peek().isspace():
                self.fail(
                    comma,
                    1,
                    "no value follows the comma",
                    "a comma and a value without a space",
                    "Remove the comma, or the space behind it.",
                )
            found.append(self._value(key, name, op))
            if len(found) > MAX_VALUES:
                self.fail(
                    comma,
                    1,
                    f"{name} has over {MAX_VALUES} values",
                    f"at most {MAX_VALUES} values",
                    "Split the list into several filters.",
                )
        if not self.is_over and not self.peek().isspace():
            self.fail(
                self.place,
                1,
                f"{self.peek()!r} follows the value",
                "a space, a comma or the end",
                'Put the whole value in quotes; inside quotes write \\" for a quote.',
            )
        return Term(key.name, tuple(dict.fromkeys(found)), op, is_negated, path)

    def _op(self, key: Key, name: str) -> str:
        signs = _SIGNS.match(self.text, self.place)
        if signs is None:
            return ""
        op, start = signs[0], self.place
        if op not in _OPS:
            self.fail(
                start,
                len(op),
                f"{op!r} is no comparison",
                "<, <=, > or >=, or nothing",
                hints.for_op(op, name, key),
            )
        if not key.comparable:
            self.fail(
                start,
                len(op),
                f"{name} cannot be compared",
                key.allowed,
                f"Write the value alone, such as {key.example}.",
            )
        self.place = signs.end()
        return op

    def _value(self, key: Key, name: str, op: str) -> Value:
        start = self.place
        is_quoted = self.peek() == '"'
        text = self.quoted("a value") if is_quoted else self.bare()
        if not text and not is_quoted:
            self._no_value(start, f"{name}:{op}", key)
        is_prefix = self._star(key, name, text, start, is_quoted)
        text = text.removesuffix("*") if is_prefix and not is_quoted else text
        if is_prefix and not text:
            self.fail(
                start,
                self.place - start,
                "* stands alone",
                key.allowed,
                "Remove the term: without it every value is found.",
            )
        try:
            value = values.number(text) if op and key.name == "args" else key.read(text, is_quoted)
        except values.BadValue as error:
            self.fail(start, self.place - start, error.problem, key.allowed, error.cure)
        return Word(value.text, is_prefix=True) if is_prefix and isinstance(value, Word) else value

    def _star(self, key: Key, name: str, text: str, start: int, is_quoted: bool) -> bool:
        """Whether a value ends with ``*``; refused in other places and for other keys."""
        if is_quoted:
            if self.peek() != "*":
                return False
            place = self.place
            self.place += 1
        elif "*" in text:
            place = start + text.index("*")
        else:
            return False
        if not key.has_prefix or place != self.place - 1:
            allowed = key.allowed if not key.has_prefix else "a * at the end of the value"
            found = f"{name} takes no *" if not key.has_prefix else "* stands inside the value"
            self.fail(
                place,
                1,
                found,
                allowed,
                "Leave the * out; only kind and phase take one, at the end. In quotes it is a character.",
            )
        return True

    def _no_value(self, start: int, begun: str, key: Key) -> NoReturn:
        if self.peek() == ",":
            self.fail(start, 1, "a value is missing before the comma", key.allowed, "Remove one comma.")
        rest = self.text[start:].split()
        cure = (
            f"Remove the space: {begun}{rest[0][:40]}." if rest else f"Write a value, such as {key.example}."
        )
        self.fail(start - 1, 1, f"no value follows {begun}", key.allowed, cure)

    def _no_key(self) -> NoReturn:
        sign = self.peek()
        self.fail(
            self.place,
            1,
            f"{sign!r} stands where a term begins",
            f"a key: one of {', '.join(NAMES)}",
            hints.for_sign(sign),
        )

    def _no_colon(self, start: int, name: str) -> NoReturn:
        rest = _SIGNS.match(self.text, self.place)
        length = len(name) + (len(rest[0]) if rest else 0)
        self.fail(
            start,
            length,
            f"no colon follows {name!r}",
            "a key, a colon and a value",
            hints.for_word(name, rest[0] if rest else ""),
        )
