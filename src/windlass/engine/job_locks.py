"""The locks on the jobs of an instance, where the configuration requires locks: no job runs without its own.

The step thread acquires and releases them: each is a call to Redis, which an event loop must not wait for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from windlass.errors import LockUnavailableError
from windlass.locks.contract import IsOver, Owner
from windlass.model import Lease

CHECK_EVERY = 5.0
"""Seconds between two checks whether the locks work, so that health says so although no job comes."""
MOST_REFUSED = 100
"""Jobs that were refused by a lock that are remembered, for people who ask why a job does not run."""
CLOSED = "its lock could not be acquired: the instance ends"
FAULT_CHECK_EVERY = 1.0
"""The same during a fault: jobs wait for its end. The locks themselves probe Redis every two seconds."""


class Guard(Protocol):
    """A lock for each request; the locks of ``windlass.locks`` have this form."""

    def acquire(self, request_id: str) -> AbstractContextManager[Any]:
        """The lock, held until its block ends and true; or a false value if another process holds it."""
        ...


@runtime_checkable
class OwnedGuard(Guard, Protocol):
    """Locks that say which instance holds them, and that can be taken over from an instance that has ended."""

    def acquire_for(
        self, request_id: str, owner: Owner, is_over: IsOver | None = None
    ) -> AbstractContextManager[Any]:
        """``acquire`` for an instance; with ``is_over``, the lock of an owner that has ended is taken over."""
        ...


class JobLocks:
    """Acquires a lock for each attempt of an instance. ``open_for`` returns the locks for an instance's id; with ``is_own`` they are closed
    with the instance."""

    def __init__(self, open_for: Callable[[str], Guard], *, is_own: bool = False) -> None:
        self._open_for = open_for
        self._is_own = is_own
        self._guard: Guard | None = None
        self._name = ""
        self._held: dict[tuple[str, int], AbstractContextManager[Any]] = {}
        self._ended: deque[Lease] = deque()
        self._refused: dict[str, tuple[float, str | None]] = {}
        self._holder: str | None = None
        self.fault = ""
        """Why no lock can be acquired now; empty without a fault."""

    def open(self, instance: str) -> None:
        """Open the locks of an instance that starts. Nothing is sent before the first lock."""
        self._name = f"instance:{instance}"
        self._guard = self._open_for(instance)

    def acquire(self, lease: Lease, instance: str, is_over: IsOver | None = None) -> str | None:
        """Acquire the lock of an attempt for an instance that has claimed the job. Returns None if it was acquired, otherwise why not:
        another process holds the lock, or it cannot be acquired (``is_away``). The lock of an owner that ``is_over`` is taken over."""
        key = lease.id, lease.token
        if key in self._held:
            return None
        lock = self._acquire(lease.id, Owner(instance, lease.token), is_over)
        self._refused.pop(lease.id, None)
        if isinstance(lock, str):
            if not self.fault and self._guard is not None:
                self._remember_refused(lease.id)
            return lock
        self._held[key] = lock
        if self._guard is None:  # closed by another thread meanwhile, which may not have seen this lock
            self._release_all()
            return CLOSED
        return None

    def _acquire(
        self, name: str, owner: Owner | None = None, is_over: IsOver | None = None
    ) -> AbstractContextManager[Any] | str:
        """A lock that is held, or why it is not."""
        guard = self._guard
        if guard is None:
            return CLOSED
        try:
            if owner is not None and isinstance(guard, OwnedGuard):
                lock = guard.acquire_for(name, owner, is_over)
            else:
                lock = guard.acquire(name)
            is_held = lock.__enter__()
        except LockUnavailableError as error:
            self.fault = error.problem
            return f"its lock could not be acquired: {error.problem}"
        self.fault = ""
        if is_held:
            return lock
        lock.__exit__(None, None, None)
        holder, since = getattr(lock, "holder", None), getattr(lock, "since", None)
        self._holder = holder
        return f"its lock is held by {holder or 'another process'}{f' since {since.isoformat()}' if since else ''}"

    def _remember_refused(self, job_id: str) -> None:
        self._refused[job_id] = (time.monotonic(), self._holder)
        if len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def refused(self, seconds: float) -> dict[str, str | None]:
        """The jobs whose locks another process held at their last try, no longer than so many seconds ago, and the holders where they are
        known; from any thread."""
        since = time.monotonic() - seconds
        return {job: holder for job, (at, holder) in list(self._refused.items()) if at >= since}

    def ended(self, leases: Iterable[Lease]) -> None:
        """Have the locks of attempts released that ended; from any thread."""
        self._ended.extend(leases)

    def release(self) -> None:
        """Release the locks of attempts that ended."""
        while self._ended:
            lease = self._ended.popleft()
            lock = self._held.pop((lease.id, lease.token), None)
            if lock is not None:
                lock.__exit__(None, None, None)

    @property
    def is_away(self) -> bool:
        """Whether no lock can be acquired now, as far as is known."""
        return bool(self.fault)

    @property
    def is_closed(self) -> bool:
        return self._guard is None

    def check(self) -> float | None:
        """Find out whether locks can be acquired, with a lock of the instance's own; returns the seconds until the next check during a fault."""
        lock = self._acquire(self._name)
        if not isinstance(lock, str):
            lock.__exit__(None, None, None)
        return FAULT_CHECK_EVERY if self.is_away else None

    def close(self) -> None:
        """Release all locks, and close what was opened here; from any thread. A step that hangs may still be acquiring locks."""
        guard, self._guard = self._guard, None  # first: no lock is acquired from here on
        self._release_all()
        if self._is_own and guard is not None and (close := getattr(guard, "close", None)) is not None:
            close()

    def _release_all(self) -> None:
        for key in tuple(self._held):
            lock = self._held.pop(key, None)
            if lock is not None:
                lock.__exit__(None, None, None)
