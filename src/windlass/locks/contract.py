"""The protocols of locks on requests, for all places where locks are kept.

A lock saves work: if two processes get the same request at once, one of them skips it. It does nothing else. A lock can end while its
owner works (Redis was emptied, restarted or evicted the key; the process was frozen for longer than the TTL), and while Redis is away each
process has its own locks. Only the database ensures that a job is claimed once and that its effects are committed once: by the claim, the
lease's token and unique keys. Without any lock, work may begin twice, but it takes effect once.

    with locks.acquire(job_id) as lock:
        if not lock:
            return                       # lock.reason, lock.holder, lock.since
        ...                              # renewed in the background; lock.is_lost is True when it is lost
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Literal, Protocol, Self


class Reason(StrEnum):
    """Why a lock was not acquired. Only for an unreachable server is there a fallback, never for a lock that is held."""

    HELD = "held by another"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who acquires a lock: the id of an instance (of locks that are not acquired for an instance, any text), and the token of its claim of
    the job; None if the lock is acquired before the claim."""

    worker: str
    claim: int | None = None


IsOver = Callable[[Owner], bool]
"""Whether the database says that the owner of a lock has ended, so that its lock may be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotHeld:
    """No lock, and why. It is false, and can be used in a ``with`` like a lock."""

    request_id: str
    reason: Reason
    holder: str | None = None
    """The worker that holds it, if that can be read."""
    since: datetime | None = None
    """When it was acquired, by the holder's clock."""
    error: str | None = None
    """The error, if the server is unreachable."""

    def __bool__(self) -> Literal[False]:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Held(Protocol):
    """A lock that this process holds. It is true; the end of its ``with`` block releases it. Any thread may use it."""

    @property
    def request_id(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes see it; False while it is kept in this process only."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether it ended before it was released: another process may hold it. Final; further work is safe, but perhaps wasted."""
        ...

    def renew(self) -> bool:
        """Renew it for another TTL. False is final: it is lost (or released). Usually called in the background."""
        ...

    def release(self) -> bool:
        """Release it, if it is not lost; never changes another holder's lock. Returns whether it was held until now. Does not raise."""
        ...

    def __bool__(self) -> Literal[True]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LockState:
    """Where locks are kept now, and whether that is a fallback."""

    kept_in: Literal["redis", "process"]
    is_degraded: bool = False
    seen: str = ""
    since: datetime | None = None
    held: int = 0
    """Locks that this process holds."""

    @property
    def degraded(self) -> tuple[str, ...]:
        """The line for ``EngineReport.degraded``; empty without a fault."""
        return (f"redis lock: {self.seen}",) if self.is_degraded else ()


class Locks(Protocol):
    """Locks on requests. Safe to share between threads."""

    def acquire(self, request_id: str) -> Held | NotHeld:
        """Acquire the lock of a request, or return at once why not; never waits for a holder."""
        ...

    def state(self) -> LockState: ...

    def close(self) -> None:
        """Stop renewing and close connections. Held locks end by their TTL, because their owners may still work."""
        ...


class Keys(Protocol):
    """A store of locks: texts under keys, each with a time to live. All methods raise ``LockUnavailableError`` if there is no reply;
    then it is unknown whether they took effect."""

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        """Set the value if the key has none; returns None then, otherwise the existing value ("" if it cannot be read)."""
        ...

    def extend(self, key: str, value: str, ttl_ms: int) -> bool:
        """Restart the TTL if the key has this value; returns whether it has."""
        ...

    def replace(self, key: str, old: str, value: str, ttl_ms: int) -> bool:
        """Set another value and restart the TTL if the key has the value ``old``; returns whether the key has the other value now."""
        ...

    def drop(self, key: str, value: str) -> bool:
        """Remove the key if it has this value; returns whether it had."""
        ...
