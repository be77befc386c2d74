"""A circuit breaker for keys on a server: after one failure, calls fail at once until a probe succeeds.

It also removes keys after failures. A call without a reply may still take effect (a frozen server executes it when it continues), so that a
key of this process can exist without a lock here. Such keys are remembered: they are removed when the server is back, and do not count as
locks of other processes.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ParamSpec, TypeVar

from windlass.clock import Clock, SystemClock
from windlass.errors import LockUnavailableError
from windlass.locks.contract import Keys

P = ParamSpec("P")
T = TypeVar("T")

PROBE_TTL_MS = 1000
MOST_UNREMOVED = 10_000


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault, and since when it lasts."""

    problem: str
    since: datetime


class GuardedKeys:
    """``Keys`` that fail at once during a fault. ``on_failure`` is called for every call that failed."""

    def __init__(
        self,
        keys: Keys,
        *,
        ttl: float,
        probe_key: str,
        on_failure: Callable[[LockUnavailableError], None],
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._ttl = ttl
        self._probe_prefix = probe_key
        self._on_failure = on_failure
        self._clock = clock or SystemClock()
        self._monotonic = monotonic
        self.begin()

    def begin(self) -> None:
        """Know of no fault and no key to remove; also in a forked child: its parent removes its own keys."""
        self._probe_key = f"{self._probe_prefix}{secrets.token_hex(8)}"
        self._lock = threading.Lock()
        self._trouble: Trouble | None = None
        self._unremoved: dict[tuple[str, str], float] = {}  # (key, value): when its TTL is over

    @property
    def trouble(self) -> Trouble | None:
        """The current fault; None if there is none."""
        return self._trouble

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        self._refuse_in_trouble(key)
        try:
            found = self._call(self._keys.take, key, value, ttl_ms)
            if found is not None and (key, found) in self._unremoved:
                self._call(self._keys.drop, key, found)
                found = self._call(self._keys.take, key, value, ttl_ms)
        except LockUnavailableError:
            self._remember(key, value)
            raise
        return found

    def extend(self, key: str, value: str, ttl_ms: int) -> bool:
        self._refuse_in_trouble(key)
        return self._call(self._keys.extend, key, value, ttl_ms)

    def replace(self, key: str, old: str, value: str, ttl_ms: int) -> bool:
        self._refuse_in_trouble(key)
        try:
            return self._call(self._keys.replace, key, old, value, ttl_ms)
        except LockUnavailableError:
            self._remember(key, value)
            raise

    def drop(self, key: str, value: str) -> bool:
        try:
            self._refuse_in_trouble(key)
            return self._call(self._keys.drop, key, value)
        except LockUnavailableError:
            self._remember(key, value)
            raise

    def probe(self) -> bool:
        """Check whether the server works again: it must accept a write and run a script. Then remembered keys are removed."""
        token = secrets.token_hex(8)
        try:
            self._call(self._keys.take, self._probe_key, token, PROBE_TTL_MS)
            self._call(self._keys.drop, self._probe_key, token)
            self._remove_remembered()
        except LockUnavailableError:
            return False
        with self._lock:
            self._trouble = None
        return True

    # ------------------------------------------------------------------ trouble

    def _refuse_in_trouble(self, key: str) -> None:
        trouble = self._trouble
        if trouble is not None:
            raise LockUnavailableError(f"the key {key}", trouble.problem)

    def _call(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except LockUnavailableError as error:
            with self._lock:
                since = self._trouble.since if self._trouble else self._clock.now()
                self._trouble = Trouble(error.problem, since)
            self._on_failure(error)
            raise

    # ------------------------------------------------------------------ keys still to be removed

    def _remember(self, key: str, value: str) -> None:
        with self._lock:
            while len(self._unremoved) >= MOST_UNREMOVED:
                del self._unremoved[next(iter(self._unremoved))]
            self._unremoved[key, value] = self._monotonic() + self._ttl

    def _remove_remembered(self) -> None:
        """Remove remembered keys. A key that does not exist may still arrive, so it is remembered for the length of its TTL."""
        with self._lock:
            now = self._monotonic()
            unremoved = self._unremoved = {
                item: ends_at for item, ends_at in self._unremoved.items() if ends_at > now
            }
        for item in list(unremoved):
            if self._call(self._keys.drop, *item):
                with self._lock:
                    self._unremoved.pop(item, None)
