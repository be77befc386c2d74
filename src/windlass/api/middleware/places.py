"""How many things of one kind a caller may have open at once: requests that wait, and streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.api.access.caller import Caller
from windlass.api.problems.problem import ProblemError


class Places:
    """Counts what callers have open, on one event loop. ``refusal`` is the kind of the problem for one more than ``most``."""

    def __init__(self, most: int, refusal: str) -> None:
        self._most, self._refusal = most, refusal
        self._taken: Counter[tuple[str | None, str | None, str]] = Counter()

    @property
    def taken(self) -> int:
        """How many places are taken, by all callers."""
        return self._taken.total()

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """A place of the caller, until the block ends."""
        self.take(caller)
        try:
            yield
        finally:
            self.free(caller)

    def take(self, caller: Caller) -> None:
        """Take a place, until it is freed."""
        name = _name(caller)
        if self._taken[name] >= self._most:
            raise ProblemError(self._refusal)
        self._taken[name] += 1

    def free(self, caller: Caller) -> None:
        """Give a place up."""
        name = _name(caller)
        self._taken[name] -= 1
        if not self._taken[name]:
            del self._taken[name]


def _name(caller: Caller) -> tuple[str | None, str | None, str]:
    who = caller.principal
    return who.issuer, who.tenant, who.subject
