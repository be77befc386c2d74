"""The REST API: ``create_api(app)`` is an ASGI application, to be served by ``windlass serve`` or mounted in an application of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.errors import ConfigError

if TYPE_CHECKING:
    from windlass.api.application import create_api as create_api
    from windlass.api.settings import ApiSettings as ApiSettings

__all__ = ["ApiSettings", "create_api"]


def __getattr__(name: str) -> object:
    """Import FastAPI when the API is first used; without the extra, say how to install it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from windlass.api import application, settings
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette"):
            raise
        raise ConfigError(
            "windlass.api", "not installed", because='it needs FastAPI: pip install "windlass[api]"'
        ) from error
    return {"create_api": application.create_api, "ApiSettings": settings.ApiSettings}[name]
