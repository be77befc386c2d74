"""Locks that keep two processes from beginning the same request: ``open_locks(settings, worker=…)``.

They only save work; see contract.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.clock import Clock
from windlass.errors import ConfigError
from windlass.locks.contract import Held, Locks, LockState, NotHeld, Reason
from windlass.locks.settings import LockSettings

if TYPE_CHECKING:
    import redis

    from windlass.locks.fallback import FallbackLocks


def open_locks(
    settings: LockSettings | None = None,
    *,
    worker: str | None = None,
    client: redis.Redis | None = None,
    count: Callable[[str], object] = lambda name: None,
    about: Callable[[str], Mapping[str, Any]] = lambda request_id: {},
    clock: Clock | None = None,
) -> FallbackLocks:
    """Return locks as the settings define them. Nothing is sent until the first ``acquire``.

    ``worker`` is written into each lock: the instance's id, or a new one. ``client`` is your own redis-py client, used instead of
    ``settings.url`` and left open. ``count`` is ``Stats.count``. ``about`` returns the fields of log lines about a request, beside its id; it
    must not raise.
    """
    from windlass.locks.fallback import FallbackLocks

    settings = settings or LockSettings()
    worker = worker or str(uuid.uuid4())
    if not settings.enabled or (settings.url is None and client is None):
        if settings.required:
            raise ConfigError(
                "background.redis_lock_required",
                True,
                because="locks are required, but redis.url is not set; set redis.url (WINDLASS_REDIS_URL) to the URL of a Redis, such as "
                "redis://127.0.0.1:6379/0, or set background.redis_lock_required to false",
            )
        return FallbackLocks(settings, worker=worker, count=count, about=about, clock=clock)
    try:
        from windlass.locks.redis import RedisKeys, connect
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ConfigError(
            "url", "redis://…", because="locks in Redis need its driver: pip install 'windlass[redis]'"
        ) from None
    keys = RedisKeys(client if client is not None else connect(str(settings.url)))
    return FallbackLocks(
        settings,
        worker=worker,
        shared=keys,
        count=count,
        about=about,
        clock=clock,
        on_close=keys.close if client is None else lambda: None,
    )


__all__ = ["Held", "LockSettings", "LockState", "Locks", "NotHeld", "Reason", "open_locks"]
