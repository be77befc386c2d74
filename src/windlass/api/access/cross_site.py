"""Refuses requests that a page of another site makes a browser send.

A browser adds cookies to a request whatever page caused it, and reaches servers on its own machine. It says where a request comes from:
``Sec-Fetch-Site`` in all browsers of today, ``Origin`` in older ones. Requests with a header Authorization need no check: a page of
another site cannot add it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from windlass.api.problems.problem import ProblemError

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


def require_own_page(request: Request, *, must_tell: bool) -> None:
    """Refuse a request that changes something, unless a page of this server sent it. With ``must_tell`` a request that does not say where it comes
    from is refused, too: it has a cookie, so a browser sent it."""
    if request.method in SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin"
    elif origin is not None:
        is_own = urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != ""
    else:
        is_own = not must_tell
    if not is_own:
        raise ProblemError("cross-site")
