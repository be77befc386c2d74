"""Several terms of one key as one condition: which texts, numbers or times meet all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.control.filters.terms import Term, Word

TICK = timedelta(microseconds=1)
"""The resolution of times in both databases: later than t is from t + TICK on."""
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Choice:
    """Texts that are wanted (None: any) and those that are not; words that are prefixes stand for all texts that begin with them."""

    wanted: frozenset[Word] | None = None
    unwanted: frozenset[Word] = frozenset()

    @classmethod
    def of(cls, terms: Iterable[Term]) -> Choice:
        wanted: frozenset[Word] | None = None
        unwanted: frozenset[Word] = frozenset()
        for term in terms:
            words = frozenset(value for value in term.values if isinstance(value, Word))
            if term.is_negated:
                unwanted |= words
            else:
                wanted = words if wanted is None else _both(wanted, words)
        if wanted is not None:
            wanted = frozenset(word for word in wanted if not any(_within(word, no) for no in unwanted))
        return cls(wanted, unwanted)

    @property
    def is_nothing(self) -> bool:
        """Whether no text is wanted."""
        return self.wanted is not None and not self.wanted

    @property
    def exact(self) -> list[str] | None:
        """The wanted texts, if they are known one by one."""
        if self.wanted is None or any(word.is_prefix for word in self.wanted):
            return None
        return sorted(word.text for word in self.wanted)

    def covers(self, text: str) -> bool:
        """Whether a text is wanted."""
        is_wanted = self.wanted is None or any(word.covers(text) for word in self.wanted)
        return is_wanted and not any(word.covers(text) for word in self.unwanted)

    def parameters(self, one: str, many: str, *, prefixes: bool = False) -> dict[str, Any]:
        """The bound parameters ``MANY`` and ``not_MANY``, and with ``prefixes`` ``ONE_prefixes`` and ``not_ONE_prefixes``."""
        wanted = None if self.wanted is None else _texts(self.wanted, is_prefix=False)
        found: dict[str, Any] = {many: wanted, f"not_{many}": _texts(self.unwanted, is_prefix=False) or None}
        if prefixes:
            found[f"{one}_prefixes"] = _texts(self.wanted or (), is_prefix=True) or None
            found[f"not_{one}_prefixes"] = _texts(self.unwanted, is_prefix=True) or None
        return found


def _texts(words: Iterable[Word], *, is_prefix: bool) -> list[str]:
    return sorted(word.text for word in words if word.is_prefix == is_prefix)


def _within(word: Word, other: Word) -> bool:
    """Whether every text of a word is a text of the other."""
    return other.covers(word.text) and (other.is_prefix or not word.is_prefix)


def _both(some: frozenset[Word], others: frozenset[Word]) -> frozenset[Word]:
    """The texts that are in both: of two words that overlap, one is within the other."""
    return frozenset(
        word if _within(word, other) else other
        for word in some
        for other in others
        if _within(word, other) or _within(other, word)
    )


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers from ``low`` to ``high``, those of ``wanted`` (None: any) without those of ``unwanted``."""

    low: int
    high: int
    wanted: frozenset[int] | None = None
    unwanted: frozenset[int] = frozenset()

    @classmethod
    def of(cls, terms: Iterable[Term], most: int) -> Numbers:
        low, high = 0, most
        wanted: frozenset[int] | None = None
        unwanted: frozenset[int] = frozenset()
        for term in terms:
            given = frozenset(value for value in term.values if isinstance(value, int))
            if not term.op:
                if term.is_negated:
                    unwanted |= given
                else:
                    wanted = given if wanted is None else wanted & given
                continue
            (number,) = given
            match _op(term):
                case "<":
                    high = min(high, number - 1)
                case "<=":
                    high = min(high, number)
                case ">":
                    low = max(low, number + 1)
                case _:
                    low = max(low, number)
        return cls(low, high, wanted, unwanted)

    def holds(self, number: int) -> bool:
        """Whether a number is wanted."""
        return (
            self.low <= number <= self.high
            and (self.wanted is None or number in self.wanted)
            and number not in self.unwanted
        )


@dataclass(frozen=True, slots=True)
class Times:
    """Times from ``low`` (included) to ``high`` (not included); None for no limit. ``is_certain`` if a job without such a time is not meant."""

    low: datetime | None = None
    high: datetime | None = None
    is_certain: bool = False

    def narrowed(self, op: str, at: datetime, is_negated: bool) -> Times:
        """These times as far as a comparison holds; a comparison with ``is_negated`` is given as its opposite."""
        low, high = self.low, self.high
        if op in (">", ">="):
            edge = at if op == ">=" else _after(at)
            low = edge if low is None else max(low, edge)
        else:
            edge = at if op == "<" else _after(at)
            high = edge if high is None else min(high, edge)
        return Times(low, high, self.is_certain or not is_negated)


def _after(at: datetime) -> datetime:
    return at + TICK if at < LAST else LAST


def _op(term: Term) -> str:
    return opposite(term.op) if term.is_negated else term.op


def opposite(op: str) -> str:
    """The comparison that holds for all other values."""
    return {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[op]


def times(terms: Iterable[Term], now: datetime) -> Times:
    """The times that meet all comparisons; a duration is so long before ``now``."""
    found = Times()
    for term in terms:
        (value,) = term.values
        op = _op(term)
        if isinstance(value, timedelta):
            at, op = now - value, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[op]
        else:
            assert isinstance(value, datetime)
            at = value
        found = found.narrowed(op, at, term.is_negated)
    return found
