"""From a filter to the bound parameters of the search. No text of a filter becomes SQL: the statements are fixed, and each parameter that is
NULL asks for nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.control.filters.choices import Choice, Numbers, Times, times
from windlass.control.filters.filter import Filter
from windlass.control.filters.terms import Scalar, Term
from windlass.control.filters.values import MOST_ATTEMPTS
from windlass.model import HIGHEST_PRIORITY, State

ALL_STATES = frozenset(State)
_PLURALS = {
    "id": "ids",
    "correlation": "correlations",
    "key": "keys",
    "principal": "subjects",
    "tenant": "tenants",
    "instance": "instances",
    "error": "errors",
    "exception": "exceptions",
    "batch": "batches",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """A filter as the search needs it: ``parameters`` of its statements, and what decides where the search begins."""

    states: frozenset[State]
    choices: dict[str, Choice]
    parameters: dict[str, Any]
    is_nothing: bool
    """Whether no job can meet the filter, because its terms exclude each other."""
    keys: frozenset[str]
    """The keys that the filter names."""

    @classmethod
    def of(cls, only: Filter, now: datetime) -> Conditions:
        by_key: dict[str, list[Term]] = {}
        for term in only.terms:
            by_key.setdefault(term.key, []).append(term)

        def terms(key: str) -> Sequence[Term]:
            return by_key.get(key, ())

        states = _states(terms("state"))
        choices = {key: Choice.of(terms(key)) for key in ("kind", "phase", *_PLURALS)}
        lanes = Numbers.of(terms("priority"), HIGHEST_PRIORITY)
        attempts = Numbers.of(terms("attempt"), MOST_ATTEMPTS)
        created = times([*terms("created"), *terms("age")], now)
        finished = times(terms("finished"), now)
        wanted_lanes = [HIGHEST_PRIORITY - n for n in range(HIGHEST_PRIORITY + 1) if lanes.holds(n)]
        if finished.is_certain:
            states &= {state for state in State if state.is_final}
        parameters: dict[str, Any] = {
            "states": None if states == ALL_STATES else sorted(states),
            "lanes": wanted_lanes if terms("priority") else None,
            "args": _args(terms("args")),
            **choices["kind"].parameters("kind", "kinds", prefixes=True),
            **choices["phase"].parameters("phase", "phases", prefixes=True),
            **_attempts(attempts, bool(terms("attempt"))),
            **_times("created", created),
            **_times("finished", finished),
        }
        for key, plural in _PLURALS.items():
            parameters |= choices[key].parameters(key, plural)
        del parameters["ids"]  # the search begins with them
        is_nothing = (
            not states
            or not wanted_lanes
            or attempts.low > attempts.high
            or any(choice.is_nothing for choice in choices.values())
            or _is_empty(created)
            or (_is_empty(finished) and finished.is_certain)
        )
        return cls(states, choices, parameters, is_nothing, frozenset(by_key))

    def exact(self, key: str) -> list[str] | None:
        """The values that the filter asks for by this key, if it names them one by one."""
        return self.choices[key].exact


def _states(terms: Sequence[Term]) -> frozenset[State]:
    found = ALL_STATES
    for term in terms:
        given = frozenset(value for value in term.values if isinstance(value, State))
        found = found - given if term.is_negated else found & given
    return found


def _attempts(numbers: Numbers, is_asked: bool) -> dict[str, Any]:
    return {
        "attempt_low": numbers.low if is_asked else None,
        "attempt_high": numbers.high if is_asked else None,
        "attempts": None if numbers.wanted is None else sorted(numbers.wanted),
        "not_attempts": sorted(numbers.unwanted) or None,
    }


def _times(name: str, found: Times) -> dict[str, Any]:
    return {f"{name}_low": found.low, f"{name}_high": found.high}


def _is_empty(found: Times) -> bool:
    return found.low is not None and found.high is not None and found.low >= found.high


def _args(terms: Sequence[Term]) -> str | None:
    """The conditions on arguments as JSON; None if there are none."""
    return json.dumps([_arg(term) for term in terms]) if terms else None


def _arg(term: Term) -> dict[str, Any]:
    scalars = [value for value in term.values if isinstance(value, Scalar)]
    facts: dict[str, Any] = {"path": term.path, "paths": _json_paths(term.path), "negated": term.is_negated}
    if term.op:
        return facts | {"op": term.op, "any_of": [json.loads(scalars[0].text)]}
    literals = [json.loads(scalar.text) for scalar in scalars if not scalar.is_text]
    return facts | {"any_of": [*(scalar.text for scalar in scalars), *literals]}


def _json_paths(path: Sequence[str]) -> list[str]:
    """A path in the notation of SQLite. A name of digits may be a place in a list or a name in an object: all ways to read the path. The first
    name is the name of an argument."""
    ways = [
        [f'."{part}"', f"[{int(part)}]"] if n and _is_index(part) else [f'."{part}"']
        for n, part in enumerate(path)
    ]
    return ["$" + "".join(way) for way in itertools.product(*ways)]


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= 9 and str(int(part)) == part
