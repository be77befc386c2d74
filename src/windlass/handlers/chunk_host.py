"""What the chunk loop needs of its context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from windlass.handlers.transaction import JobTransaction
from windlass.model import Lease, Output, Progress


class ChunkHost(Protocol):
    """The part of a context that the loop uses."""

    lease: Lease
    probe: Callable[[str, int], None] | None
    has_loop: bool

    @property
    def is_async(self) -> bool: ...

    def check_stop(self) -> None: ...

    def sleep(self, seconds: float) -> None: ...

    async def sleep_async(self, seconds: float) -> None: ...

    def alive(self) -> None: ...

    def resume(self) -> Progress | None: ...

    def outputs(self) -> list[Output]: ...

    def save(self, position: Any, done: int, total: int | None) -> None: ...

    def put_output(self, name: str, value: Any) -> Output: ...

    def transaction(self, *, ends: bool = True) -> JobTransaction: ...
