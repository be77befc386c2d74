"""A filter: terms that all have to hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.control.filters.parser import parse
from windlass.control.filters.terms import Term, Word
from windlass.errors import ConfigError, did_you_mean
from windlass.model import JobFilter, State


@dataclass(frozen=True, slots=True)
class Filter:
    """The jobs that meet all ``terms``; without a term, all jobs.

    >>> str(Filter.parse('state:failed  kind:"report"') & Filter.parse("age:>60m"))
    'state:failed kind:report age:>1h'
    """

    terms: tuple[Term, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Read a filter; ``FilterError`` says where it is wrong, and what to write instead."""
        return cls(tuple(parse(text)))

    @classmethod
    def of(cls, given: Filter | JobFilter | str | None) -> Filter:
        """A filter in any of the forms that the control service takes."""
        match given:
            case None:
                return cls()
            case str():
                return cls.parse(given)
            case Filter():
                return given
            case JobFilter():
                return cls(tuple(_terms(given)))
        raise ConfigError(
            "filter", given, "a text such as 'state:failed kind:report*', a Filter or a JobFilter"
        )

    @property
    def is_empty(self) -> bool:
        """Whether it means all jobs."""
        return not self.terms

    def __and__(self, other: Filter) -> Filter:
        return Filter((*self.terms, *other.terms))

    def __str__(self) -> str:
        """The text of the filter, in one spelling: ``parse`` makes the same filter of it."""
        return " ".join(map(str, self.terms))


def _terms(only: JobFilter) -> Iterable[Term]:
    if only.state is not None:
        if only.state not in tuple(State):
            near = did_you_mean(str(only.state), list(State))
            raise ConfigError("state", only.state, f"one of {', '.join(State)}{near}")
        yield Term("state", (State(only.state),))
    for key, text in (("kind", only.kind), ("phase", only.phase), ("correlation", only.correlation_id)):
        if text is not None:
            yield Term(key, (Word(text),))
