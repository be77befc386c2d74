"""Locks that are values under keys of any ``Keys``. fallback.py renews them."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from windlass.clock import Clock, SystemClock
from windlass.errors import LockUnavailableError
from windlass.locks.contract import IsOver, Keys, NotHeld, Owner, Reason
from windlass.locks.settings import LockSettings
from windlass.locks.stamp import Stamp, read_stamp


class KeyLocks:
    """Acquires locks in one store: ``KeyLocks(LocalKeys(), …)``, ``KeyLocks(RedisKeys(client), …)``."""

    def __init__(
        self,
        keys: Keys,
        settings: LockSettings,
        *,
        worker: str,
        is_shared: bool,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.keys = keys
        self.settings = settings
        self.is_shared = is_shared
        self.monotonic = monotonic
        self._owner = Owner(worker)
        self._clock = clock or SystemClock()

    def acquire(
        self, request_id: str, owner: Owner | None = None, is_over: IsOver | None = None
    ) -> KeyHeld | NotHeld:
        """Acquire the lock for ``owner``, or return why not. The lock of an owner that ``is_over`` is replaced."""
        key = self.settings.key(request_id)
        value = Stamp.of(owner or self._owner, self._clock.now()).text
        asked_at = self.monotonic()
        try:
            found = self.keys.take(key, value, self.settings.ttl_ms)
            if found is None:
                return KeyHeld(self, request_id, key, value, asked_at)
            holder, since = read_stamp(found)
            # Exactly the value that was judged is replaced: another process may have acquired the lock meanwhile.
            if (
                holder is not None
                and is_over is not None
                and is_over(holder)
                and self.keys.replace(key, found, value, self.settings.ttl_ms)
            ):
                return KeyHeld(self, request_id, key, value, asked_at, replaced=holder)
        except LockUnavailableError as error:
            return NotHeld(request_id=request_id, reason=Reason.UNREACHABLE, error=error.problem)
        worker = None if holder is None else holder.worker
        return NotHeld(request_id=request_id, reason=Reason.HELD, holder=worker, since=since)


class KeyHeld:
    """A lock: this process's value under a key.

    The local clock counts the TTL from before the call to the server, so that ``is_lost`` is true before another process can acquire the
    lock, even after this process was frozen, or while the server does not reply.
    """

    def __init__(
        self,
        locks: KeyLocks,
        request_id: str,
        key: str,
        value: str,
        asked_at: float,
        replaced: Owner | None = None,
    ) -> None:
        self.request_id = request_id
        self.key = key
        self.value = value
        self.replaced = replaced
        self.is_shared = locks.is_shared
        self._keys = locks.keys
        self._settings = locks.settings
        self._monotonic = locks.monotonic
        self._ends_at = asked_at + locks.settings.ttl
        self._is_lost = False
        self._is_released = False

    @property
    def is_lost(self) -> bool:
        if not self._is_lost and not self._is_released and self._monotonic() >= self._ends_at:
            self._is_lost = True
        return self._is_lost

    def renew(self) -> bool:
        """Renew it for another TTL. While the server does not reply, it is held until the TTL is over."""
        if self._is_over():
            return False
        asked_at = self._monotonic()
        try:
            is_ours = self._keys.extend(self.key, self.value, self._settings.ttl_ms)
        except LockUnavailableError:
            return not self.is_lost
        if self._is_released:  # by another thread meanwhile, which removed the key
            return False
        if is_ours:
            self._ends_at = max(self._ends_at, asked_at + self._settings.ttl)
        else:
            self._is_lost = True
        return is_ours

    def release(self) -> bool:
        """Release it. A key that could not be removed ends by its TTL."""
        if self._is_released:
            return False
        was_lost = self.is_lost
        self._is_released = True
        try:
            is_ours = self._keys.drop(self.key, self.value)
        except LockUnavailableError:
            return False
        self._is_lost = was_lost or not is_ours
        return is_ours and not was_lost

    def _is_over(self) -> bool:
        return self._is_released or self.is_lost

    def __bool__(self) -> Literal[True]:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
