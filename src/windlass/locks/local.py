"""Keys in the memory of one process, with the same rules as in Redis: a TTL, and only the owner renews or removes a key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class LocalKeys:
    """Keys of this process; other processes do not see them."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._found: dict[str, tuple[str, float]] = {}
        self._sweep_at = float("-inf")

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        with self._lock:
            now = self._monotonic()
            if now >= self._sweep_at:  # otherwise keys that were not removed would stay for ever
                self._found = {name: item for name, item in self._found.items() if item[1] > now}
                self._sweep_at = now + ttl_ms / 1000
            found = self._value(key, now)
            if found is None:
                self._found[key] = value, now + ttl_ms / 1000
            return found

    def extend(self, key: str, value: str, ttl_ms: int) -> bool:
        with self._lock:
            now = self._monotonic()
            is_ours = self._value(key, now) == value
            if is_ours:
                self._found[key] = value, now + ttl_ms / 1000
            return is_ours

    def replace(self, key: str, old: str, value: str, ttl_ms: int) -> bool:
        with self._lock:
            now = self._monotonic()
            is_old = self._value(key, now) == old
            if is_old:
                self._found[key] = value, now + ttl_ms / 1000
            return is_old

    def drop(self, key: str, value: str) -> bool:
        with self._lock:
            is_ours = self._value(key, self._monotonic()) == value
            if is_ours:
                del self._found[key]
            return is_ours

    def __len__(self) -> int:
        with self._lock:
            return len(self._found)

    def _value(self, key: str, now: float) -> str | None:
        value, ends_at = self._found.get(key, ("", float("-inf")))
        return value if ends_at > now else None
