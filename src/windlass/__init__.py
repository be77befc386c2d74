"""Durable background jobs for Python on SQLite or PostgreSQL.

Names are loaded when they are first used, so that ``windlass --help`` starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.app.app import App as App
    from windlass.app.build import Background as Background
    from windlass.app.build import build as build
    from windlass.errors import LeaseLost as LeaseLost
    from windlass.errors import NotAllowedError as NotAllowedError
    from windlass.errors import WindlassError as WindlassError
    from windlass.features import open_store as open_store
    from windlass.handlers.context import Context as Context
    from windlass.model import Debounce as Debounce
    from windlass.model import Enqueued as Enqueued
    from windlass.model import Key as Key
    from windlass.model import KeyScope as KeyScope
    from windlass.model import Rate as Rate
    from windlass.model import Throttle as Throttle
    from windlass.model.principal import Principal as Principal
    from windlass.model.rate import per_hour as per_hour
    from windlass.model.rate import per_minute as per_minute
    from windlass.model.rate import per_second as per_second
    from windlass.model.retry import custom as custom
    from windlass.model.retry import exponential as exponential
    from windlass.model.retry import fixed as fixed
    from windlass.model.retry import linear as linear
    from windlass.model.signals import Cancel as Cancel
    from windlass.model.signals import Fail as Fail
    from windlass.model.signals import Retry as Retry
    from windlass.model.signals import Stopped as Stopped
    from windlass.settings import Settings as Settings

_HOMES = {
    "App": "windlass.app.app",
    "Background": "windlass.app.build",
    "Cancel": "windlass.model.signals",
    "Context": "windlass.handlers.context",
    "Debounce": "windlass.model",
    "Enqueued": "windlass.model",
    "Fail": "windlass.model.signals",
    "Key": "windlass.model",
    "KeyScope": "windlass.model",
    "LeaseLost": "windlass.errors",
    "NotAllowedError": "windlass.errors",
    "Principal": "windlass.model.principal",
    "Rate": "windlass.model",
    "Retry": "windlass.model.signals",
    "Settings": "windlass.settings",
    "Stopped": "windlass.model.signals",
    "Throttle": "windlass.model",
    "WindlassError": "windlass.errors",
    "build": "windlass.app.build",
    "custom": "windlass.model.retry",
    "exponential": "windlass.model.retry",
    "fixed": "windlass.model.retry",
    "linear": "windlass.model.retry",
    "open_store": "windlass.features",
    "per_hour": "windlass.model.rate",
    "per_minute": "windlass.model.rate",
    "per_second": "windlass.model.rate",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__all__"]
