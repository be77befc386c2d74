"""Assertions about jobs: which were enqueued, with which arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from windlass.arguments.encoding import decode, encode
from windlass.handlers.registry import Registry


class HasArguments(Protocol):
    """A job, stored or captured."""

    @property
    def kind(self) -> str: ...

    @property
    def args(self) -> Mapping[str, Any]: ...


J = TypeVar("J", bound=HasArguments)


class Assertions(ABC, Generic[J]):
    """The assertions that sandboxes and captures have."""

    @abstractmethod
    def _listed(self) -> Sequence[J]:
        """The jobs to search in, oldest first."""

    @property
    @abstractmethod
    def _registry(self) -> Registry:
        """The kinds that there are."""

    def assert_enqueued(self, kind: str, /, *, count: int | None = None, **arguments: Any) -> list[J]:
        """Jobs of a kind whose arguments include these; at least one, or exactly ``count``."""
        matching = self._matching(kind, arguments)
        wrong = len(matching) != count if count is not None else not matching
        if wrong:
            there = "\n".join(f"  {job.kind} {job.args}" for job in self._listed()) or "  none"
            wanted = "at least one" if count is None else str(count)
            raise AssertionError(
                f"{wanted} wanted of {kind} with {arguments}, {len(matching)} found; jobs:\n{there}"
            )
        return matching

    def refute_enqueued(self, kind: str, /, **arguments: Any) -> None:
        """No job of a kind has these arguments."""
        matching = self._matching(kind, arguments)
        assert not matching, (
            f"{len(matching)} jobs of {kind} with {arguments}; none wanted: {matching[0].args}"
        )

    def _matching(self, kind: str, arguments: Mapping[str, Any]) -> list[J]:
        found = [job for job in self._listed() if job.kind == kind]
        if not found and self._registry.kind(kind) is None:
            # A spelling mistake would be no job, and none is what a test may want.
            raise self._registry.unknown(kind)
        missing = object()
        # As they are stored: a date is a text there, and would equal none.
        wanted = decode(encode(arguments, what="arguments"), what="arguments")
        return [
            job
            for job in found
            if all(job.args.get(name, missing) == value for name, value in wanted.items())
        ]
