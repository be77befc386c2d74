"""One request, and whether its lock can be taken."""

from __future__ import annotations

from windlass.locks.fallback import FallbackLocks

REQUEST = "0190-a"
KEY = "bg:req:0190-a"


def can_take(locks: FallbackLocks) -> bool:
    with locks.acquire(REQUEST) as lock:
        return bool(lock)
