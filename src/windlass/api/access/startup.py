"""Refuses to start a server that others could use without credentials."""

from __future__ import annotations

from windlass.api.access.addresses import is_loopback
from windlass.api.settings import ApiSettings
from windlass.app.app import App
from windlass.errors import ConfigError


def require_authentication(app: App, settings: ApiSettings, *, has_function: bool = False) -> None:
    """``ConfigError`` for a server that listens beyond loopback and asks for no credentials, or for credentials that no caller can have."""
    if is_loopback(settings.host):
        return
    if settings.no_auth:
        because = "without credentials only this machine may be served; listen on 127.0.0.1, or leave api.no_auth (--no-auth) out"
        raise ConfigError("api.host", settings.host, because=because)
    if has_function or settings.jwks is not None:
        return
    if not any(token.state == "live" for token in app.store.tokens.list()):
        because = (
            "the API would be open to other machines, and no caller could sign in: there is no API token, and JWTs are not accepted. Make a "
            "token (windlass token create NAME --role view), set api.jwks, or listen on 127.0.0.1"
        )
        raise ConfigError("api.host", settings.host, because=because)
