"""Durable background jobs for Python on SQLite or PostgreSQL.

Names are loaded when they are first used, so that ``windlass --help`` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.app import App as App
    from windlass.builder import Background as Background
    from windlass.builder import build as build
    from windlass.errors import LeaseLost as LeaseLost
    from windlass.errors import NotAllowedError as NotAllowedError
    from windlass.errors import WindlassError as WindlassError
    from windlass.model import Debounce as Debounce
    from windlass.model import Enqueued as Enqueued
    from windlass.model import Key as Key
    from windlass.model import KeyScope as KeyScope
    from windlass.model import Rate as Rate
    from windlass.model import Throttle as Throttle
    from windlass.principal import Principal as Principal
    from windlass.rates import per_hour as per_hour
    from windlass.rates import per_minute as per_minute
    from windlass.rates import per_second as per_second
    from windlass.retry import custom as custom
    from windlass.retry import exponential as exponential
    from windlass.retry import fixed as fixed
    from windlass.retry import linear as linear
    from windlass.settings import Settings as Settings
    from windlass.signals import Cancel as Cancel
    from windlass.signals import Fail as Fail
    from windlass.signals import Retry as Retry
    from windlass.signals import Stopped as Stopped
    from windlass.store import open_store as open_store
    from windlass.work.context import Context as Context

_HOMES = {
    "App": "windlass.app",
    "Background": "windlass.builder",
    "Cancel": "windlass.signals",
    "Context": "windlass.work.context",
    "Debounce": "windlass.model",
    "Enqueued": "windlass.model",
    "Fail": "windlass.signals",
    "Key": "windlass.model",
    "KeyScope": "windlass.model",
    "LeaseLost": "windlass.errors",
    "NotAllowedError": "windlass.errors",
    "Principal": "windlass.principal",
    "Rate": "windlass.model",
    "Retry": "windlass.signals",
    "Settings": "windlass.settings",
    "Stopped": "windlass.signals",
    "Throttle": "windlass.model",
    "WindlassError": "windlass.errors",
    "build": "windlass.builder",
    "custom": "windlass.retry",
    "exponential": "windlass.retry",
    "fixed": "windlass.retry",
    "linear": "windlass.retry",
    "open_store": "windlass.store",
    "per_hour": "windlass.rates",
    "per_minute": "windlass.rates",
    "per_second": "windlass.rates",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__all__"]
