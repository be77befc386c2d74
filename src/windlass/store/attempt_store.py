"""The store as a running job sees it; engine/running_job_store.py implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from windlass.model import Captured, Enqueued, Lease, NewJob, Output, Progress


class AttemptStore(Protocol):
    """The calls to the store that a running job may make, under its own lease."""

    def checkpoint(
        self, lease: Lease, *, done: int, total: int | None = None, position: Any = None
    ) -> bool: ...

    def put_output(self, lease: Lease, value: Any, *, name: str = "") -> Output: ...

    def transaction(self, lease: Lease) -> Any: ...

    def fence(self, lease: Lease) -> Any: ...

    def resume(self, lease: Lease) -> Progress | None: ...

    def outputs_of(self, lease: Lease) -> Sequence[Output]: ...

    def principal_of(self, lease: Lease) -> Captured | None: ...

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]: ...
