"""The locks of a process: in Redis, and in memory while Redis does not answer.

Every lock is taken in memory first and in Redis second. So threads of one process never get past each other, whatever happens to Redis,
and only "nobody answers" makes a lock of this process enough; "held by another" never does. A lock taken in memory only is put into Redis
as soon as that is back.

A lock in memory has a shorter TTL than one in Redis, where there is Redis: it stands in for a while, and a process that went on without
its caller should not keep others out for as long.

One thread renews what is held, three times per shortest TTL, and asks every other second whether Redis is back. A lock that nobody refers to any
more, though it was not released, is no longer renewed.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from windlass.clock import Clock
from windlass.errors import LockUnavailableError, WindlassError
from windlass.locks.contract import Held, Keys, LockState, NotHeld, Reason
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
    """Locks in ``shared`` keys (Redis) with those of this process to fall back on; without ``shared``, in this process alone.

    ``count`` is told of ``lock_held``, ``redis_errors`` and ``locks_lost``. ``about`` says what a log line should have about a request.
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
        self._pid = os.getpid()
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
        self._lock = threading.Lock()
        self._holds: dict[int, weakref.ref[_Hold]] = {}
        self._renew_at = monotonic() + self._renew_every
        self._probe_at = float("inf")
        self._quiet = Quiet(WARN_EVERY, monotonic)
        self._is_told = False
        self._is_closed = False
        self._renewer = Renewer(self._turn)

    # ------------------------------------------------------------------ the contract

    def acquire(self, request_id: str) -> Held | NotHeld:
        """Take the lock of a request. Held by another: logged, counted, and nothing else. Raises ``LockUnavailableError`` where
        Redis is required and does not answer."""
        if self._is_closed or os.getpid() != self._pid:
            why = "closed" if self._is_closed else "opened before a fork; open others in the child process"
            raise WindlassError(f"request {request_id} cannot be locked: these locks were {why}")
        local = self._local.acquire(request_id)
        if not local:
            return self._skipped(local)
        try:
            shared = self._share(request_id)
        except BaseException:
            local.release()
            raise
        if isinstance(shared, NotHeld):
            local.release()
            return self._skipped(shared)
        if not local.renew():  # asking Redis took longer than the TTL
            again = self._local.acquire(request_id)
            if not again:
                if shared is not None:
                    shared.release()
                return self._skipped(again)
            local = again
        hold = _Hold(self, local, shared)
        with self._lock:
            self._holds[id(hold)] = weakref.ref(hold)
        self._renewer.start()
        return hold

    def state(self) -> LockState:
        with self._lock:
            held = sum(reference() is not None for reference in self._holds.values())
        if self._guard is None:
            return LockState(kept_in="process", seen="locks hold inside this process", held=held)
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

    # ------------------------------------------------------------------ taking

    def _share(self, request_id: str) -> KeyHeld | NotHeld | None:
        """The lock in Redis, or who has it; None where Redis does not answer and need not."""
        if self._shared is None:
            return None
        got = self._shared.acquire(request_id)
        if isinstance(got, KeyHeld) or got.reason is Reason.HELD:
            return got
        if self._settings.required:
            raise LockUnavailableError(f"request {request_id}", got.error or "Redis does not answer")
        return None

    def share_later(self, request_id: str) -> KeyHeld | NotHeld | None:
        """The same for a lock that is held in memory already: quietly, and only if Redis is well."""
        if self._shared is None or self._guard is None or self._guard.trouble is not None:
            return None
        got = self._shared.acquire(request_id)
        return got if isinstance(got, KeyHeld) or got.reason is Reason.HELD else None

    def forget(self, hold: _Hold) -> None:
        """It was released."""
        with self._lock:
            self._holds.pop(id(hold), None)

    def lost(self, hold: _Hold) -> None:
        """It ended before it was released."""
        self._count("locks_lost")
        emit(events.LOCK_LOST, **self._fields(hold.request_id))

    def _skipped(self, answer: NotHeld) -> NotHeld:
        self._count("lock_held")
        emit(events.LOCK_HELD, holder=answer.holder, **self._fields(answer.request_id))
        return answer

    def _fields(self, request_id: str) -> dict[str, Any]:
        return {"job_id": request_id, **self._about(request_id)}

    # ------------------------------------------------------------------ trouble

    def _on_failure(self, error: LockUnavailableError) -> None:
        """A call failed. Probes fail every other second while Redis is away, so the warning comes again from time to time."""
        self._count("redis_errors")
        skipped = self._quiet.skipped()
        if skipped is not None:
            self._is_told = True
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
        self._renew_at = self._monotonic()  # now: it puts into Redis what is held in memory only
        if self._is_told:
            self._is_told = False
            emit(events.LOCK_RESTORED, since=since.isoformat())

    # ------------------------------------------------------------------ the thread's turn

    def _turn(self) -> float:
        self._probe()
        if self._monotonic() >= self._renew_at:
            self._renew_at = self._monotonic() + self._renew_every
            self._renew_all()
        is_well = self._guard is None or self._guard.trouble is None
        next_at = self._renew_at if is_well else min(self._renew_at, self._probe_at)
        return next_at - self._monotonic()

    def _renew_all(self) -> None:
        with self._lock:
            self._holds = {
                number: reference for number, reference in self._holds.items() if reference() is not None
            }
            references = list(self._holds.values())
        for reference in references:
            hold = reference()
            if hold is not None:
                hold.renew()


class _Hold:
    """A lock in memory, and the one in Redis where there is one."""

    def __init__(self, locks: FallbackLocks, local: KeyHeld, shared: KeyHeld | None) -> None:
        self.request_id = local.request_id
        self.key = local.key
        self._locks = locks
        self._local = local
        self._shared = shared
        self._pid = os.getpid()
        self._lock = threading.Lock()  # so that nothing is put into Redis after the release
        self._is_taken = False  # another has it in Redis
        self._is_told = False
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
        """In memory also when the one in Redis is lost: threads of this process still need not begin the same work."""
        with self._lock:
            if self._is_released or os.getpid() != self._pid:
                return False
            self._local.renew()
            if self._shared is not None:
                self._shared.renew()
            elif not self.is_lost:
                self._put_into_redis()
            if self.is_lost and not self._is_told:
                self._is_told = True
                self._locks.lost(self)
            return not self.is_lost

    def _put_into_redis(self) -> None:
        got = self._locks.share_later(self.request_id)
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
                was_ours = was_ours and not self._shared.is_lost  # the last one to be asked knows best
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
