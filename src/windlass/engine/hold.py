"""What running jobs ask of the store in their instance's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.features import Store
from windlass.model import Lease, Run
from windlass.store.jobs.holder import Holder


class InstanceHold:
    """The store as running jobs see it. Asks for the current holder each time, because a lost lease replaces it."""

    def __init__(
        self, store: Store, holder: Callable[[], Holder], run_of: Callable[[Lease], Run | None]
    ) -> None:
        self._store = store
        self._holder = holder
        self._run_of = run_of

    def checkpoint(self, lease: Lease, **what: Any) -> bool:
        return self._holder().checkpoint(lease, **what)

    def put_output(self, lease: Lease, value: Any, *, name: str = "") -> Any:
        return self._holder().put_output(lease, value, name=name)

    def transaction(self, lease: Lease) -> Any:
        return self._holder().transaction(lease, run=lambda: self._run_of(lease))

    def fence(self, lease: Lease) -> Any:
        return self._holder().fence(lease, run=lambda: self._run_of(lease))

    def resume(self, lease: Lease) -> Any:
        return self._store.resume(lease)

    def outputs_of(self, lease: Lease) -> Any:
        return self._store.outputs_of(lease)

    def principal_of(self, lease: Lease) -> Any:
        return self._store.principals.of(lease)

    def enqueue(self, jobs: Any) -> Any:
        return self._store.enqueue(jobs)
