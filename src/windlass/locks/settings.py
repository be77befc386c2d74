"""Settings of locks on requests."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from windlass.errors import ConfigError, check_names
from windlass.ranges import Duration
from windlass.urls import wrong_url

SCHEMES = ("redis://", "rediss://", "unix://")
LONGEST_ID = 512
# With less, a lock could end before the call that acquired it returns.
TTL_MS = Duration(1000, 86_400_000, "milliseconds", is_whole=True)

_ALSO = "process_request; workers if locks are required"
APPLIES = {
    "url": _ALSO,
    "enabled": "process_request",
    "required": "process_request and workers",
    "ttl_ms": _ALSO,
    "fallback_ttl_ms": "process_request, while Redis is away and locks are not required",
    "prefix": _ALSO,
}
"""Where each setting applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """Where locks are kept and how long they live.

    Without a ``url`` (or a client, see ``open_locks``), and with ``enabled=False``, they are kept in the memory of each process.
    """

    enabled: bool = True  # background.redis_lock_enabled, BACKGROUND_REDIS_LOCK_ENABLED
    required: bool = False  # background.redis_lock_required: without Redis no lock, not even in memory
    ttl_ms: int = 300_000  # background.lock_ttl_ms: how long the lock of a process that died stays
    fallback_ttl_ms: int = 60_000  # background.lock_fallback_ttl_ms: the same for the lock in memory beside Redis; at most ttl_ms
    prefix: str = "bg:req:"  # what keys begin with; the request's id follows
    url: str | None = field(default=None, repr=False)  # Redis or Valkey; may hold a password

    def __post_init__(self) -> None:
        for name in ("enabled", "required"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(name, getattr(self, name), "true or false")
        for name in ("ttl_ms", "fallback_ttl_ms"):
            TTL_MS.check(name, getattr(self, name))
        if not _is_text(self.prefix, 200) or not self.prefix.isprintable() or " " in self.prefix:
            raise ConfigError("prefix", self.prefix, "1 to 200 characters without spaces, such as bg:req:")
        url: object = self.url
        if url is not None and not (isinstance(url, str) and url.startswith(SCHEMES)):
            raise ConfigError("url", wrong_url(url), "redis://host:port/0, rediss://… or unix:///path")
        if self.required and not self.enabled:
            raise ConfigError(
                "required",
                True,
                "false while enabled (background.redis_lock_enabled) is false, since there is no Redis to require",
            )

    @property
    def ttl(self) -> float:
        """The time to live in seconds."""
        return self.ttl_ms / 1000

    def in_memory(self) -> LockSettings:
        """These settings for locks in memory beside Redis, with a shorter TTL: they are needed only while Redis is away."""
        return replace(self, ttl_ms=min(self.ttl_ms, self.fallback_ttl_ms))

    def key(self, request_id: str) -> str:
        """The name of a request's lock."""
        if not _is_text(request_id, LONGEST_ID):
            raise ConfigError("request_id", request_id, f"a text of 1 to {LONGEST_ID} characters")
        return f"{self.prefix}{request_id}"

    def changed(self, **changes: Any) -> LockSettings:
        """These settings with some of them changed; an unknown name is refused."""
        check_names("setting", changes, (item.name for item in fields(self)))
        return replace(self, **changes)


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest
