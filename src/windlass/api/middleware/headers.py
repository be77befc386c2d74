"""Reads the header of a request without making an object of all of them: what every request passes has to be cheap."""

from __future__ import annotations

from starlette.types import Scope


def header_of(scope: Scope, name: bytes) -> bytes:
    """The first value of a header, whose name is given in lower case; empty without one. Servers give names in lower case (ASGI)."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return b""
