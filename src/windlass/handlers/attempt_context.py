"""The context of an attempt as the engine uses it: the handler's context, and what becomes of the attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from windlass.arguments.asyncness import is_async
from windlass.handlers.chunk_defaults import CHUNK_DEFAULTS, ChunkDefaults
from windlass.handlers.context import Context
from windlass.handlers.registry import Phase
from windlass.model import Lease, Verdict
from windlass.principals.authority import Authority
from windlass.principals.rights import Rights
from windlass.store.attempt_store import AttemptStore

Probe = Callable[[str, int], None]
"""Called at the points a job passes (its chunks); for tests that make something go wrong there."""


class AttemptContext(Context, Rights):
    """The context of one attempt. Handlers see it as ``Context``."""

    recorded_as = Verdict.RECORDED
    """What the database made of the end that a transaction of the handler recorded."""

    def __init__(
        self,
        lease: Lease,
        phase: Phase,
        store: AttemptStore,
        *,
        touch: Callable[[], None] = lambda: None,
        probe: Probe | None = None,
        authority: Authority | None = None,
        on_duplicate: Callable[[str], None] = lambda name: None,
        chunk_defaults: ChunkDefaults = CHUNK_DEFAULTS,
    ) -> None:
        super().__init__(lease, store, authority or Authority())
        self._chunk_defaults = chunk_defaults
        self._phase = phase
        self._touch = touch
        self._on_duplicate = on_duplicate
        self._stopping = threading.Event()
        self.probe = probe
        self.has_loop = False
        """Whether the handler has begun a loop over chunks: a phase has one."""
        self.is_recorded = False
        """Whether a transaction of the handler has ended the job (or moved it on) already."""
        self.awaits_commit = False
        """Whether a transaction that the handler opened itself has the job's end in it; only the database knows if it committed."""
        self.ended_with: Any = None
        """The result that one of the two ended the job with."""

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return is_async(self._phase.handler)

    def ask_to_stop(self) -> None:
        """Have the handler stop at its next chance."""
        self._ask_to_stop()

    def save(self, position: Any, done: int, total: int | None) -> None:
        """Like ``checkpoint``, for loops that check themselves whether to stop."""
        self._touch()
        if self._store.checkpoint(self._lease, done=done, total=total, position=position):
            self._ask_to_stop()

    def is_dropped(self, value: Any) -> bool:
        """Whether a value that the handler returned is lost, because the job was ended with another result before."""
        if value is None or not (self.is_recorded or self.awaits_commit) or value is self.ended_with:
            return False
        try:
            return not bool(value == self.ended_with)
        except Exception:  # noqa: BLE001  the value's own __eq__
            return True

    def _on_end(self, result: Any, verdict: Verdict) -> None:
        self.ended_with = result
        self.recorded_as = verdict
        self.is_recorded = True

    def _on_end_in(self, result: Any) -> None:
        self.ended_with = result
        self.awaits_commit = True
