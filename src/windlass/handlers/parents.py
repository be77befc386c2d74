"""``ctx.parents()``: the jobs that a running job waited for, with their results and errors.

They are read page by page while they are iterated over, so that the results of ten thousand parents never have to fit in memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import TypeAdapter

from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError, JobNotFoundError, PayloadError
from windlass.handlers.registry import Kind, Registry
from windlass.model import Lease, Parent, ParentCounts, State, StoredParent
from windlass.store.attempt_store import AttemptStore
from windlass.store.ids import SMALLEST

if TYPE_CHECKING:
    from windlass.submit.handle import JobHandle

R = TypeVar("R")
T = TypeVar("T")
Decode = Callable[[str], Any]


class TypedKind(Protocol[R]):
    """A kind whose handler returns ``R``: a job, or a pipeline."""

    def handle(self, job_id: str) -> JobHandle[R]: ...


class Reading(Generic[T]):
    """Values that are read page by page, with ``for`` or with ``async for``; each loop begins anew."""

    def __init__(
        self, lease: Lease, store: AttemptStore, pick: Callable[[StoredParent], Iterable[T]]
    ) -> None:
        self._lease = lease
        self._store = store
        self._pick = pick

    def __iter__(self) -> Iterator[T]:
        after: str | None = SMALLEST
        while after is not None:
            page = self._store.parents_of(self._lease, after)
            for parent in page.parents:
                yield from self._pick(parent)
            after = page.next_after

    async def __aiter__(self) -> AsyncIterator[T]:
        after: str | None = SMALLEST
        while after is not None:
            page = await asyncio.to_thread(self._store.parents_of, self._lease, after)
            for parent in page.parents:
                for value in self._pick(parent):
                    yield value
            after = page.next_after


class Parents(Reading[Parent[R]]):
    """The jobs that a job waited for, in the order of their ids; of one kind only, where a kind was given."""

    def __init__(self, lease: Lease, store: AttemptStore, decode: Decode, kind: str | None = None) -> None:
        super().__init__(lease, store, self._parents)
        self._decode = decode
        self._kind = kind

    def results(self) -> Reading[R]:
        """The results of the parents that completed. ``JobNotFoundError`` for one that completed and was pruned since: without its result
        the others are not the whole."""
        return Reading(self._lease, self._store, self._results)

    def failures(self) -> Reading[Parent[R]]:
        """The parents that failed or were cancelled, with their errors."""
        return Reading(self._lease, self._store, self._failures)

    def counts(self) -> ParentCounts:
        """How many parents there are, and how they had ended when this job was let go: one statement, whatever their number. A parent
        that was retried by hand since then counts as before. With a kind, all pages are read."""
        if self._kind is None:
            return self._store.count_parents(self._lease)
        states = list(Reading(self._lease, self._store, self._states))
        ends = {state.value: states.count(state) for state in State if state.is_final}
        return ParentCounts(len(states), **ends)

    async def counts_async(self) -> ParentCounts:
        """``counts`` without blocking the event loop."""
        return await asyncio.to_thread(self.counts)

    def __bool__(self) -> bool:
        raise TypeError(
            "whether there are parents is a read of the database: ask ctx.parents().counts().total"
        )

    def _parents(self, parent: StoredParent) -> Iterator[Parent[R]]:
        if self._is_of_kind(parent):
            result = None if parent.result is None else self._decoded(parent)
            yield Parent(parent.id, parent.kind, parent.state, result, parent.error, parent.is_gone)

    def _is_of_kind(self, parent: StoredParent) -> bool:
        # A parent that is gone may have been of this kind.
        return self._kind is None or parent.kind == self._kind or parent.is_gone

    def _states(self, parent: StoredParent) -> Iterator[State]:
        if self._is_of_kind(parent):
            yield parent.state

    def _results(self, parent: StoredParent) -> Iterator[R]:
        for item in self._parents(parent):
            if item.state is State.COMPLETED:
                if item.is_gone:
                    raise JobNotFoundError(item.id)
                yield item.result  # type: ignore[misc]  # None is what a handler without a return value returned

    def _failures(self, parent: StoredParent) -> Iterator[Parent[R]]:
        if parent.state in (State.FAILED, State.CANCELLED):
            yield from self._parents(parent)

    def _decoded(self, parent: StoredParent) -> Any:
        try:
            return self._decode(parent.result or "null")
        except PayloadError as error:
            raise PayloadError(
                f"result of job {parent.id}", error.field, error.problem, error.cure, verdict="cannot be read"
            ) from error


def parents_of(lease: Lease, store: AttemptStore, of: Any, registry: Registry | None) -> Parents[Any]:
    """The parents of a job: all, those of a kind, or all with their results as a type."""
    if of is None:
        return Parents(lease, store, json.loads)
    kind = _kind_of(of, registry)
    if kind is not None:
        return Parents(lease, store, kind.phases[-1].signature.decode_result, kind.name)
    return Parents(lease, store, _reader(of))


def _kind_of(of: Any, registry: Registry | None) -> Kind | None:
    found = getattr(of, "windlass_kind", None)
    if isinstance(found, Kind):
        return found
    if not isinstance(of, str):
        return None
    if registry is None:
        raise ConfigError(
            "parents", of, "the kind itself or a type: names of kinds are not known in this process"
        )
    kind = registry.kind(of)
    if kind is None:
        raise registry.unknown(of)
    return kind


def _reader(of: Any) -> Decode:
    try:
        adapter = TypeAdapter[Any](of)
    except Exception as error:
        raise ConfigError(
            "parents", of, f"a kind, or a type that pydantic can read ({explain(error)})"
        ) from error

    def read(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except Exception as error:
            name = getattr(of, "__name__", str(of))
            raise PayloadError(
                "result",
                "result",
                f"does not fit {name} ({explain(error)})",
                "read it as another type, or as a kind",
            ) from error

    return read
