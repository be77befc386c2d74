"""The locks of a process: in Redis, and in memory while Redis does not answer.

Every lock is acquired in memory first and in Redis second. So threads of one process always exclude each other, and a lock in memory is
enough only if Redis is unreachable, never if another process holds the lock in Redis. A lock that is only in memory is put into Redis as
soon as Redis is back.

Beside Redis, a lock in memory has a shorter TTL than one in Redis: it is a fallback for a while, and work that continues without its caller
should not block others for as long.

One thread renews held locks, three times per shortest TTL, and checks every two seconds whether Redis is back. A lock without references is
no longer renewed, even if it was not released.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from windlass import forking
from windlass.clock import Clock
from windlass.errors import LockUnavailableError, WindlassError
from windlass.locks.contract import Held, IsOver, Keys, LockState, NotHeld, Owner, Reason
from windlass.locks.guard import GuardedKeys
from windlass.locks.keyed import KeyHeld, KeyLocks
from windlass.locks.local import LocalKeys
from windlass.locks.renewer import Renewer
from windlass.locks.settings import LockSettings
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.logger import Quiet

PROBE_EVERY = 2.0
WARN_EVERY = 60.0


class FallbackLocks:
    """Locks in ``shared`` keys (Redis) with locks of this process as a fallback; without ``shared``, in this process only.

    ``count`` is called with ``lock_held``, ``redis_errors`` and ``locks_lost``. ``about`` returns the fields of log lines about a request.
    """

    def __init__(
        self,
        settings: LockSettings,
        *,
        worker: str,
        shared: Keys | None = None,
        count: Callable[[str], object] = lambda name: None,
        about: Callable[[str], Mapping[str, Any]] = lambda request_id: {},
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        local = settings if shared is None else settings.in_memory()
        self._renew_every = local.ttl / 3
        self._count = count
        self._about = about
        self._monotonic = monotonic
        self._on_close = on_close
        self._local = KeyLocks(
            LocalKeys(monotonic), local, worker=worker, is_shared=False, clock=clock, monotonic=monotonic
        )
        self._guard: GuardedKeys | None = None
        self._shared: KeyLocks | None = None
        if shared is not None:
            self._guard = GuardedKeys(
                shared,
                ttl=settings.ttl,
                probe_key=settings.key("probe:"),
                on_failure=self._on_failure,
                clock=clock,
                monotonic=monotonic,
            )
            self._shared = KeyLocks(
                self._guard, settings, worker=worker, is_shared=True, clock=clock, monotonic=monotonic
            )
        self._is_closed = False
        self._begin()
        forking.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, weakref.ref[_FallbackLock]] = {}
        self._renew_at = self._monotonic() + self._renew_every
        self._probe_at = float("inf")
        self._quiet = Quiet(WARN_EVERY, self._monotonic)
        self._is_reported = False
        self._renewer = Renewer(self._renew_and_probe)

    def after_fork_in_child(self) -> None:
        """Hold nothing: the locks that are held, and the thread that renews them, are the parent's. Redis still has the parent's locks."""
        self._begin()
        self._local.keys = LocalKeys(self._monotonic)
        if self._guard is not None:
            self._guard.begin()

    # ------------------------------------------------------------------ the contract

    def acquire(self, request_id: str) -> Held | NotHeld:
        """Acquire the lock of a request. A lock that another process holds is logged and counted. Raises ``LockUnavailableError`` if Redis
        is required and unreachable."""
        return self._acquire(request_id, None, None)

    def acquire_for(self, request_id: str, owner: Owner, is_over: IsOver | None = None) -> Held | NotHeld:
        """``acquire`` for an instance of the database, whose id and claim are written into the lock. A lock in Redis whose owner ``is_over``
        is taken over: pass it only if this owner has claimed the job in the database."""
        return self._acquire(request_id, owner, is_over)

    def _acquire(self, request_id: str, owner: Owner | None, is_over: IsOver | None) -> Held | NotHeld:
        if self._is_closed:
            raise WindlassError(f"request {request_id} cannot be locked: these locks were closed")
        local = self._local.acquire(request_id, owner)
        if not local:
            return self._skipped(local)
        try:
            shared = self._share(request_id, owner, is_over)
        except BaseException:
            local.release()
            raise
        if isinstance(shared, NotHeld):
            local.release()
            return self._skipped(shared)
        if not local.renew():  # the call to Redis took longer than the TTL
            again = self._local.acquire(request_id, owner)
            if not again:
                if shared is not None:
                    shared.release()
                return self._skipped(again)
            local = again
        if shared is not None and shared.replaced is not None:
            emit(events.LOCK_TAKEN_OVER, holder=shared.replaced.worker, **self._fields(request_id))
        lock = _FallbackLock(self, owner, local, shared)
        with self._lock:
            self._held[id(lock)] = weakref.ref(lock)
        self._renewer.start()
        return lock

    def state(self) -> LockState:
        with self._lock:
            held = sum(reference() is not None for reference in self._held.values())
        if self._guard is None:
            return LockState(kept_in="process", seen="locks are kept in this process only", held=held)
        trouble = self._guard.trouble
        if trouble is None:
            return LockState(kept_in="redis", seen="Redis answers", held=held)
        return LockState(
            kept_in="process", is_degraded=True, seen=trouble.problem, since=trouble.since, held=held
        )

    def close(self) -> None:
        self._is_closed = True
        self._renewer.close()
        self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ acquiring

    def _share(
        self, request_id: str, owner: Owner | None, is_over: IsOver | None
    ) -> KeyHeld | NotHeld | None:
        """Acquire the lock in Redis; None if Redis does not answer and is not required."""
        if self._shared is None:
            return None
        got = self._shared.acquire(request_id, owner, is_over)
        if isinstance(got, KeyHeld) or got.reason is Reason.HELD:
            return got
        if self._settings.required:
            raise LockUnavailableError(f"request {request_id}", got.error or "Redis does not answer")
        return None

    def share_later(self, request_id: str, owner: Owner | None) -> KeyHeld | NotHeld | None:
        """Acquire in Redis a lock that is held in memory; None during an outage."""
        if self._shared is None or self._guard is None or self._guard.trouble is not None:
            return None
        got = self._shared.acquire(request_id, owner)
        return got if isinstance(got, KeyHeld) or got.reason is Reason.HELD else None

    def forget(self, lock: _FallbackLock) -> None:
        """Remove a lock that was released."""
        with self._lock:
            self._held.pop(id(lock), None)

    def lost(self, lock: _FallbackLock) -> None:
        """Count and log a lock that ended before it was released."""
        self._count("locks_lost")
        emit(events.LOCK_LOST, **self._fields(lock.request_id))

    def _skipped(self, refusal: NotHeld) -> NotHeld:
        self._count("lock_held")
        emit(events.LOCK_HELD, holder=refusal.holder, **self._fields(refusal.request_id))
        return refusal

    def _fields(self, request_id: str) -> dict[str, Any]:
        return {"job_id": request_id, **self._about(request_id)}

    # ------------------------------------------------------------------ trouble

    def _on_failure(self, error: LockUnavailableError) -> None:
        """Count and log a failed call. Probes fail every two seconds while Redis is away; the warning is repeated once a minute."""
        self._count("redis_errors")
        skipped = self._quiet.skipped()
        if skipped is not None:
            self._is_reported = True
            required = self._settings.required
            emit(
                events.LOCK_REQUIRED if required else events.LOCK_DEGRADED,
                reason=error.problem,
                skipped=skipped or None,
            )
        self._probe_at = self._monotonic() + PROBE_EVERY
        self._renewer.wake()

    def _probe(self) -> None:
        guard = self._guard
        if guard is None or guard.trouble is None or self._monotonic() < self._probe_at:
            return
        since = guard.trouble.since
        if not guard.probe():
            self._probe_at = self._monotonic() + PROBE_EVERY
            return
        self._renew_at = self._monotonic()  # now: locks that are only in memory are put into Redis
        if self._is_reported:
            self._is_reported = False
            emit(events.LOCK_RESTORED, since=since.isoformat())

    # ------------------------------------------------------------------ the thread

    def _renew_and_probe(self) -> float:
        self._probe()
        if self._monotonic() >= self._renew_at:
            self._renew_at = self._monotonic() + self._renew_every
            self._renew_all()
        is_well = self._guard is None or self._guard.trouble is None
        next_at = self._renew_at if is_well else min(self._renew_at, self._probe_at)
        return next_at - self._monotonic()

    def _renew_all(self) -> None:
        with self._lock:
            self._held = {
                number: reference for number, reference in self._held.items() if reference() is not None
            }
            references = list(self._held.values())
        for reference in references:
            lock = reference()
            if lock is not None:
                lock.renew()


class _FallbackLock:
    """A lock in memory, and the same lock in Redis if there is one."""

    def __init__(
        self, locks: FallbackLocks, owner: Owner | None, local: KeyHeld, shared: KeyHeld | None
    ) -> None:
        self.request_id = local.request_id
        self.key = local.key
        self._locks = locks
        self._owner = owner
        self._local = local
        self._shared = shared
        self._pid = os.getpid()
        self._lock = threading.Lock()  # so that nothing is put into Redis after the release
        self._is_taken = False  # another process holds it in Redis
        self._is_reported = False
        self._is_released = False

    @property
    def is_shared(self) -> bool:
        shared = self._shared
        return shared is not None and not shared.is_lost

    @property
    def is_lost(self) -> bool:
        shared = self._shared
        return self._is_taken or self._local.is_lost or (shared is not None and shared.is_lost)

    def renew(self) -> bool:
        """Renew both; the lock in memory even if that in Redis is lost, so that other threads of this process do not begin the same work."""
        if os.getpid() != self._pid:  # a forked child's copy
            return False
        with self._lock:
            if self._is_released:
                return False
            self._local.renew()
            if self._shared is not None:
                self._shared.renew()
            elif not self.is_lost:
                self._put_into_redis()
            if self.is_lost and not self._is_reported:
                self._is_reported = True
                self._locks.lost(self)
            return not self.is_lost

    def _put_into_redis(self) -> None:
        got = self._locks.share_later(self.request_id, self._owner)
        if isinstance(got, KeyHeld):
            self._shared = got
        elif got is not None:
            self._is_taken = True

    def release(self) -> bool:
        if os.getpid() != self._pid:  # a forked child's copy
            return False
        with self._lock:
            if self._is_released:
                return False
            self._is_released = True
            was_ours = not self.is_lost
            if self._shared is not None:
                self._shared.release()
                was_ours = was_ours and not self._shared.is_lost  # the release in Redis is the last check
            self._local.release()
        self._locks.forget(self)
        return was_ours

    def __bool__(self) -> Literal[True]:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
