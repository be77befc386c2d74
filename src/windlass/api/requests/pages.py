"""The header Link of a page: where the next one is."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import Response


def link_next(response: Response, path: str, cursor: str | None, **parameters: object) -> None:
    """Name the next page in the header Link (RFC 8288), if there is one."""
    if cursor is not None:
        given = {name: value for name, value in parameters.items() if value not in (None, "")}
        response.headers["Link"] = f'<{path}?{urlencode({**given, "cursor": cursor})}>; rel="next"'
