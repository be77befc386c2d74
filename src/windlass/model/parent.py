"""The jobs that a job waited for, as it reads them, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from windlass.model.job import Json, State

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Parent(Generic[R]):
    """One job that the running job waited for, as it is now.

    ``result`` is what a completed job returned, ``error`` the error of one that failed or was cancelled. A parent that lives again because it
    was retried by hand has its present state and neither. One that was pruned ``is_gone``: only its id and how it ended are known.
    """

    id: str
    kind: str | None
    state: State
    result: R | None = None
    error: Mapping[str, Any] | None = None
    is_gone: bool = False


class StoredParent(NamedTuple):
    """A parent as the database has it; ``result`` is JSON text."""

    id: str
    kind: str | None
    state: State
    result: Json | None
    error: Mapping[str, Any] | None
    is_gone: bool = False


class ParentPage(NamedTuple):
    """Some of the parents of a job, in the order of their ids; ``next_after`` is where the next page begins, None at the end."""

    parents: Sequence[StoredParent]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class ParentCounts:
    """How many jobs another job waits for (``total``), and how those ended that have ended."""

    total: int
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """How many have ended, in any way."""
        return self.completed + self.failed + self.cancelled

    @property
    def left(self) -> int:
        """How many are still waited for."""
        return self.total - self.ended
