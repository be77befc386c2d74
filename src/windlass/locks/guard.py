"""A switch in front of keys that can be unreachable: after one failure nobody waits for a time-out again until a probe went through.

It also cleans up behind failures. A call whose answer never came may still take effect (a server that stood still reads what was sent to
it when it goes on), so that a key of ours can be there though nobody here holds it. Such keys are remembered: they are removed when the
server is back, and are not taken for another's lock.
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
MOST_OWED = 10_000


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong, and since when."""

    problem: str
    since: datetime


class GuardedKeys:
    """``Keys`` that fail at once while there is trouble. ``on_failure`` hears of every call that was made and failed."""

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
        self._probe_key = f"{probe_key}{secrets.token_hex(8)}"
        self._on_failure = on_failure
        self._clock = clock or SystemClock()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._trouble: Trouble | None = None
        self._owed: dict[tuple[str, str], float] = {}  # (key, value): when it has ended by itself

    @property
    def trouble(self) -> Trouble | None:
        """None while all is well."""
        return self._trouble

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        self._refuse_in_trouble(key)
        try:
            found = self._call(self._keys.take, key, value, ttl_ms)
            if found is not None and (key, found) in self._owed:
                self._call(self._keys.drop, key, found)
                found = self._call(self._keys.take, key, value, ttl_ms)
        except LockUnavailableError:
            self._owe(key, value)
            raise
        return found

    def extend(self, key: str, value: str, ttl_ms: int) -> bool:
        self._refuse_in_trouble(key)
        return self._call(self._keys.extend, key, value, ttl_ms)

    def drop(self, key: str, value: str) -> bool:
        try:
            self._refuse_in_trouble(key)
            return self._call(self._keys.drop, key, value)
        except LockUnavailableError:
            self._owe(key, value)
            raise

    def probe(self) -> bool:
        """Ask whether the server is well again: it must take a write and run a script. Keys that could not be removed before are removed then."""
        token = secrets.token_hex(8)
        try:
            self._call(self._keys.take, self._probe_key, token, PROBE_TTL_MS)
            self._call(self._keys.drop, self._probe_key, token)
            self._settle()
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

    def _owe(self, key: str, value: str) -> None:
        with self._lock:
            while len(self._owed) >= MOST_OWED:
                del self._owed[next(iter(self._owed))]
            self._owed[key, value] = self._monotonic() + self._ttl

    def _settle(self) -> None:
        """Remove our keys that nobody holds. One that is not there may still arrive, so it is remembered for as long as it could live."""
        with self._lock:
            now = self._monotonic()
            owed = self._owed = {item: ends_at for item, ends_at in self._owed.items() if ends_at > now}
        for item in list(owed):
            if self._call(self._keys.drop, *item):
                with self._lock:
                    self._owed.pop(item, None)
