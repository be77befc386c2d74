"""The verifier of bearer tokens: API tokens of this database, and JWTs if their keys are set."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from windlass.api.access.addresses import is_loopback
from windlass.api.settings import ApiSettings
from windlass.app.app import App
from windlass.control.roles import principal_of
from windlass.errors import ConfigError, TokenError
from windlass.model.principal import Principal
from windlass.principals.jwt import ClaimPaths, Verifier
from windlass.tokens.token import PREFIX

FETCH_TIME = 5.0
MAX_JWKS = 1024**2


class BearerVerifier:
    """Makes a principal of a bearer token: of an API token, known by its beginning, or of a JWT."""

    may_block = True

    def __init__(self, app: App, settings: ApiSettings) -> None:
        self._app = app
        self._jwt = None if settings.jwks is None else jwt_verifier(settings)

    def verify(self, token: str) -> Principal:
        """The principal of a token; ``TokenError`` for a token that cannot be trusted."""
        if token.startswith(PREFIX):
            return principal_of(self._app.store.tokens.verify(token))
        if self._jwt is None:
            raise TokenError(
                "token_malformed", "it is no API token, and JWTs are not accepted here (api.jwks)"
            )
        return self._jwt.verify(token)


def jwt_verifier(settings: ApiSettings) -> Verifier:
    """The verifier of JWTs that settings describe; ``ConfigError`` for settings that are missing or cannot work."""
    for key, value in (("api.jwt_issuer", settings.jwt_issuer), ("api.jwt_audience", settings.jwt_audience)):
        if not value:
            raise ConfigError(
                key,
                "",
                because="it is required with api.jwks: whose tokens are accepted, and for whom they are made",
            )
    assert settings.jwks is not None
    return Verifier(
        algorithms=settings.jwt_algorithms,
        keys=_source(settings.jwks),
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        leeway=settings.jwt_leeway,
        claims=ClaimPaths(
            subject=settings.jwt_subject, tenant=settings.jwt_tenant, roles=tuple(settings.jwt_roles)
        ),
    )


def _source(jwks: str) -> Callable[[], Mapping[str, Any]]:
    """A function that reads the keys: every five minutes, so that new keys need no restart."""
    if "://" not in jwks:
        path = Path(jwks)

        def read() -> Mapping[str, Any]:
            try:
                return _object(path.read_bytes())
            except (OSError, ValueError) as error:
                raise ConfigError("api.jwks", jwks, f"a file with a JWKS ({error})") from None

        read()  # a wrong file is found at the start
        return read
    address = urlsplit(jwks)
    is_safe = address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname))
    if not is_safe or address.username is not None:
        raise ConfigError("api.jwks", "***", "a file, or an https: URL without a user")
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context()), _NoRedirect
    )

    def fetch() -> Mapping[str, Any]:
        with opener.open(jwks, timeout=FETCH_TIME) as response:
            return _object(response.read(MAX_JWKS + 1))

    return fetch


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from the address that was set, and from no other."""

    def redirect_request(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError("the address of the keys redirects; set the final address")


def _object(text: bytes) -> Mapping[str, Any]:
    if len(text) > MAX_JWKS:
        raise ValueError(f"it is larger than {MAX_JWKS:,} bytes")
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ValueError('it has no list "keys"')
    return found
