"""Where a search begins: the sources of ids that a filter and the rights of an actor lead to.

A source that an index leads to gives the ids of jobs, which are then read by their ids. Without one, the tables of the wanted states are scanned
from newest to oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.control.actor import Scope
from windlass.control.filters.conditions import Conditions
from windlass.control.noun import Source
from windlass.features import Store
from windlass.model import State
from windlass.store.ids import LARGEST, SMALLEST
from windlass.store.jobs.search import Window

MANY = 8
"""From more values of one key on, tables are scanned instead of one index entry after the other."""
MANY_KEYS = 2_000
"""So many stored keys are read at once; one for each kind and key."""
FEW = 5_000
"""So many processing or queued jobs of a phase are read at once and sorted."""
SHORT = 500
"""So many jobs of a key or a batch are read for an actor who does not see all jobs."""
OTHERS = 5_000
"""Rows of a page that has only jobs of other people with the same name."""
_BAD_ENDS = {State.FAILED, State.CANCELLED}

Read = Callable[[str, int], Window]
"""Reads a window of a source: the rows before an id, at most so many."""
Ids = Callable[[str, int], Sequence[str]]
NOTHING: Sequence[Read] = ()


class Sources:
    """Chooses the sources of one search."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        only: Conditions,
        parameters: Mapping[str, Any],
        kinds: Callable[[], Collection[str]],
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._scope = scope
        self._only = only
        self._parameters = parameters

    def scans(self) -> Sequence[Read]:
        """The tables of the wanted states, or the index of kinds of jobs that ended badly."""
        kinds = self._only.exact("kind")
        if kinds is not None and len(kinds) <= MANY and self._only.states <= _BAD_ENDS:
            return [partial(self._kind, kind) for kind in kinds]
        return [self._scan]

    def indexed(self) -> Sequence[Read] | None:
        """Sources of ids that an index leads to; None if there are none."""
        if (ids := self._only.exact("id")) is not None:
            return [self._listed(ids)]
        if (keys := self._keys()) is not None:
            return self._led_by(partial(self._store.key_holders.jobs, keys))
        ways: Mapping[str, Callable[[str, str, int], Sequence[str]]] = {
            "batch": self._store.parents.newest,
            "principal": self._of_subject,
            "tenant": self._store.principals.jobs_of_tenant,
        }
        for key, ids_of in ways.items() if self._scope.is_all else ():
            values = self._only.exact(key)
            if values is not None and len(values) <= MANY:
                return [self._by_ids(partial(ids_of, value)) for value in values]
        if self._scope.is_all:
            return self._counted() if self._only.keys & {"state", "phase"} else None
        batches = self._only.exact("batch")
        if batches is not None and len(batches) == 1:
            return self._led_by(partial(self._store.parents.newest, batches[0]))
        return self._visible()

    def _keys(self) -> Sequence[str] | None:
        """The keys that the filter asks for, as they are stored: each kind has keys of its own."""
        keys = self._only.exact("key")
        if keys is None:
            return None
        kinds = self._only.exact("kind")
        named = [f"{kind}:{key}" for kind in (self._kinds() if kinds is None else kinds) for key in keys]
        return [*keys, *named] if len(named) <= MANY_KEYS else None

    def _led_by(self, ids_of: Ids) -> Sequence[Read]:
        """A source of ids; for an actor who does not see all jobs, those of a short list that the actor sees: neither the ids nor the number of
        the others may be seen."""
        if self._scope.is_all:
            return [self._by_ids(ids_of)]
        ids = ids_of(LARGEST, SHORT + 1)
        if len(ids) > SHORT:
            return self._visible()
        return [self._listed(self._store.search.among(ids, self._parameters))]

    def _visible(self) -> Sequence[Read]:
        """All jobs that an actor may see who does not see all jobs."""
        return [self._own()] if self._scope.sees == "own" else [self._of_tenant()]

    def _counted(self) -> Sequence[Read] | None:
        """The processing jobs, or those of short queues; nothing if there are no jobs of these states and phases."""
        counts = {
            phase: count
            for phase, count in self._store.phases.counts().items()
            if self._only.choices["phase"].covers(phase)
        }
        total = sum(getattr(count, state) for count in counts.values() for state in self._only.states)
        if not total:
            return NOTHING
        search, ids = self._store.search, None
        if self._only.states == {State.PROCESSING}:
            held = sum(count.processing for count in self._store.phases.counts().values())
            ids = search.held(held) if held <= FEW else None
            is_whole = ids is not None and len(ids) >= held
        elif self._only.states == {State.QUEUED} and self._only.exact("phase") and total <= FEW:
            ids = [job for phase in counts for job in search.queued(phase, FEW)]
            is_whole = len(ids) >= total
        else:
            return None
        return [self._listed(ids)] if ids is not None and is_whole else None

    def _scan(self, before: str, size: int) -> Window:
        return self._store.search.scan(self._only.states, before, size, self._parameters)

    def _kind(self, kind: str, before: str, size: int) -> Window:
        return self._store.search.of_kind(kind, before, size, self._parameters)

    def _of_subject(self, subject: str, before: str, limit: int) -> Sequence[str]:
        return [row[0] for row in self._store.principals.jobs_of_subject(subject, before, limit)]

    def _of_tenant(self) -> Read:
        """The jobs of the tenant whose jobs the actor may see."""
        return self._by_ids(partial(self._store.principals.jobs_of_tenant, self._scope.tenant or ""))

    def _own(self) -> Read:
        """The jobs that the actor asked for."""
        scope, principals = self._scope, self._store.principals

        def read(before: str, size: int) -> Window:
            while True:  # a page may have only jobs of another tenant's subject of this name: neither their ids nor their number may be seen
                rows = principals.jobs_of_subject(scope.subject or "", before, size)
                own = [job for job, *whose in rows if whose == [scope.issuer, scope.tenant]]
                if own or len(rows) < size:
                    return self._window(own, is_last=len(rows) < size)
                before, size = rows[-1][0], max(size, OTHERS)

        return read

    def _by_ids(self, ids_of: Ids) -> Read:
        """A source of ids, whose jobs are read by their ids."""

        def read(before: str, size: int) -> Window:
            ids = ids_of(before, size)
            return self._window(ids, is_last=len(ids) < size)

        return read

    def _listed(self, ids: Sequence[str]) -> Read:
        """Jobs whose ids are known."""

        def read(before: str, size: int) -> Window:
            left = sorted((job for job in ids if job < before), reverse=True)
            return self._window(left[:size], is_last=len(left) <= size)

        return read

    def _window(self, ids: Sequence[str], *, is_last: bool) -> Window:
        # Without a term, every job of the actor is found: the index of principals has jobs that exist.
        is_asked = bool(self._only.keys) or self._scope.is_all
        found = self._store.search.among(ids, self._parameters) if is_asked else ids
        return Window(found, ids[-1] if ids else SMALLEST, len(ids), is_last)


def known_kinds(source: Source) -> set[str]:
    """The kinds that are known: of this application's code, and those that have the name of a phase that had a job."""
    defined = {phase.kind for phase in source.registry.phases.values()}
    return {*defined, *source.store.phases.counts()}
