"""What a lock on a request promises, wherever it is kept.

A lock saves work: of two processes that are told of the same request at once, one leaves it alone. It decides nothing else. A lock can
end while its owner works (Redis was emptied, restarted or evicted the key; the process stood still for longer than the TTL), and with
Redis away each process has locks of its own. That a job is claimed once, and that its effects are committed once, is decided by the
database alone: by the claim, the lease's token and unique keys. Take the lock away altogether, and work may be begun twice; nothing is
done twice.

    with locks.acquire(job_id) as lock:
        if not lock:
            return                       # lock.reason, lock.holder, lock.since
        ...                              # renewed in the background; lock.is_lost says when it is no longer ours
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Literal, Protocol, Self


class Reason(StrEnum):
    """Why a lock was not got. The two are never mixed up: only where nobody answers may something else stand in."""

    HELD = "held by another"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotHeld:
    """No lock, and why. It is false, and can stand in a ``with`` where a lock would."""

    request_id: str
    reason: Reason
    holder: str | None = None
    """The worker that has it, where that can be read."""
    since: datetime | None = None
    """When it was taken, by the holder's clock."""
    error: str | None = None
    """What the server said, where it could not be asked."""

    def __bool__(self) -> Literal[False]:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Held(Protocol):
    """A lock in our hands. It is true; leaving its ``with`` block releases it. Any thread may use it."""

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
        """Whether it ended before it was released: another may have it. Final; work that goes on is safe, but perhaps wasted."""
        ...

    def renew(self) -> bool:
        """Let it live for another TTL. False is final: it is lost (or released). Usually called in the background."""
        ...

    def release(self) -> bool:
        """Let it go, if it is still ours; never touches the lock of another. Answers whether it was ours until now. Does not raise."""
        ...

    def __bool__(self) -> Literal[True]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LockState:
    """Where locks are kept now, and whether that is less than was asked for."""

    kept_in: Literal["redis", "process"]
    is_degraded: bool = False
    seen: str = ""
    since: datetime | None = None
    held: int = 0
    """Locks in our hands."""

    @property
    def degraded(self) -> tuple[str, ...]:
        """The line for ``EngineReport.degraded``; empty while all is well."""
        return (f"redis lock: {self.seen}",) if self.is_degraded else ()


class Locks(Protocol):
    """Hands out locks on requests. Safe to share between threads."""

    def acquire(self, request_id: str) -> Held | NotHeld:
        """Take the lock of a request, or say at once why not; never waits for a holder."""
        ...

    def state(self) -> LockState: ...

    def close(self) -> None:
        """Stop renewing and close connections. Locks still held are left to their TTL, for their owners may still work."""
        ...


class Keys(Protocol):
    """Where locks are kept: texts under keys, each with a time to live. All three raise ``LockUnavailableError`` for want of an answer,
    and then it is unknown whether they took effect."""

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        """Put the value there if there is none. None when it is ours; otherwise what is there ("" where that cannot be read)."""
        ...

    def extend(self, key: str, value: str, ttl_ms: int) -> bool:
        """Start its TTL anew if the value is there; whether it is."""
        ...

    def drop(self, key: str, value: str) -> bool:
        """Remove the key if the value is there; whether it was."""
        ...
