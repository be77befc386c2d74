"""The store as a job in a child process uses it: opened when the first job asks for it, kept for the next ones.

The instance holds the lease; a child only writes under it, by id and token.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from windlass.errors import WindlassError
from windlass.features import Store, open_store
from windlass.model import Captured, Enqueued, Lease, NewJob, Output, Progress, Run


class _Box:
    """A store that several holds share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.store: Store | None = None


class ChildHold:
    """A ``AttemptStore`` on a store of this process's own."""

    def __init__(self, options: Mapping[str, Any], lease: float) -> None:
        self._options = dict(options)
        self._lease = timedelta(seconds=lease)
        self._box = _Box()
        self._run: Callable[[], Run | None] | None = None

    def for_run(self, run: Callable[[], Run | None]) -> ChildHold:
        """The same hold for one attempt, which says where and how long it ran."""
        hold = copy.copy(self)
        hold._run = run
        return hold

    @property
    def store(self) -> Store:
        with self._box.lock:
            if self._box.store is None:
                if "url" not in self._options:
                    raise WindlassError(
                        "this process was told of no database; give the executor the store's URL"
                    )
                self._box.store = open_store(**self._options)
            return self._box.store

    def checkpoint(self, lease: Lease, *, done: int, total: int | None = None, position: Any = None) -> bool:
        return self.store.writes(self._lease).checkpoint(lease, done=done, total=total, position=position)

    def put_output(self, lease: Lease, value: Any, *, name: str = "") -> Output:
        return self.store.writes(self._lease).put_output(lease, value, name=name)

    def transaction(self, lease: Lease) -> Any:
        return self.store.writes(self._lease).transaction(lease, run=self._run)

    def fence(self, lease: Lease) -> Any:
        return self.store.writes(self._lease).fence(lease, run=self._run)

    def resume(self, lease: Lease) -> Progress | None:
        return self.store.resume(lease)

    def outputs_of(self, lease: Lease) -> Sequence[Output]:
        return self.store.outputs_of(lease)

    def principal_of(self, lease: Lease) -> Captured | None:
        return self.store.principals.of(lease)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return self.store.enqueue(jobs)

    def close(self) -> None:
        with self._box.lock:
            if self._box.store is not None:
                self._box.store.close()
                self._box.store = None
