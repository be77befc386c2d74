"""Filters as they are shown to people: the values of arguments in them are payload of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from windlass.control.filters.filter import Filter
from windlass.control.filters.terms import Scalar, Term, Value
from windlass.errors import FilterError

WITHHELD: Final = "***"
_SOME_VALUE = Scalar("value")
Redacted = Callable[[Any], Any]


def without_secrets(text: str, redacted: Redacted) -> str:
    """The text of a filter with secrets hidden: ``args.password:"***"``."""
    shown = _without(text, lambda term: hides_argument(term.path, term.values, redacted))
    return str(redacted(shown))


def without_payload(text: str) -> str:
    """The text of a filter without values of arguments: ``args.text:"***"``."""
    return _without(text, lambda term: term.key == "args")


def hides_argument(path: Sequence[str], values: Sequence[Value], redacted: Redacted) -> bool:
    """Whether the argument at a path is a secret, or one of these values of it is."""
    for value in (_SOME_VALUE, *values) if path else ():
        given: Any = value.text if isinstance(value, Scalar) else str(value)
        for name in reversed(path):
            given = {name: given}
        if redacted(given) != given:
            return True
    return False


def _without(text: str, hides: Callable[[Term], bool]) -> str:
    """A filter whose terms of these have a placeholder for their values. A text that is no filter of this release is hidden as a whole."""
    try:
        terms = Filter.parse(text).terms
    except FilterError:
        return WITHHELD
    hidden = (replace(term, values=(Scalar(WITHHELD),), op="") if hides(term) else term for term in terms)
    return " ".join(map(str, hidden))
