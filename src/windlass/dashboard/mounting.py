"""Serves the dashboard in front of the REST API: its pages and files here, everything else by the API."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.dashboard.assets import Asset, Assets

PAGES = frozenset(
    {
        "",
        "pipelines",
        "jobs",
        "failures",
        "schedules",
        "processors",
        "operations",
        "audit",
        "system",
        "sign-in",
    }
)
"""The first part of the paths that are screens. A screen is made in the browser, by its address."""
KEPT = "public, max-age=31536000, immutable"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
OF_PAGES = {
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers that mean something on a page alone: a page loads dozens of files, and none of them needs these."""


def with_dashboard(api: ASGIApp) -> ASGIApp:
    """An API with the dashboard at ``/``, under any base path. The pages hold no data: what they show, they ask the API for.

    >>> web.mount("/jobs", with_dashboard(create_api(app, authenticate=current_user)))
    """
    return _Dashboard(api, Assets())


class _Dashboard:
    def __init__(self, api: ASGIApp, assets: Assets) -> None:
        self._api = api
        self._assets = assets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._found(scope) if scope["type"] == "http" else None
        await (found or self._api)(scope, receive, send)

    def _found(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            return None
        path = _below(scope).lstrip("/")
        first, _, rest = path.partition("/")
        if first in PAGES:
            return self._page(scope, path)
        if first != "static":
            return None
        digest, _, name = rest.partition("/")
        asset = self._assets.files.get(name)
        if asset is None:
            return Response("no such file", 404, HEADERS, "text/plain")
        is_kept = digest == self._assets.digest
        return _sent(scope, asset, {"Cache-Control": KEPT if is_kept else "no-cache"})

    def _page(self, scope: Scope, path: str) -> Response:
        base = quote(scope.get("root_path", "").rstrip("/"), safe="/-._~")
        page = Asset(self._assets.page(base, path), "text/html; charset=utf-8")
        return _sent(scope, page, {**OF_PAGES, "Content-Security-Policy": self._assets.policy})


def _below(scope: Scope) -> str:
    """The path of a request below the base path: the API may be mounted."""
    path, base = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(base) if path == base or path.startswith(f"{base}/") else path


def _sent(scope: Scope, asset: Asset, headers: dict[str, str]) -> Response:
    """A file as a response: not at all where the browser has it, compressed where the browser can read that."""
    asked = Request(scope).headers
    headers = {**HEADERS, **headers, "ETag": asset.etag, "Vary": "Accept-Encoding"}
    if asset.etag in asked.get("If-None-Match", ""):
        return Response(status_code=304, headers=headers)
    content = asset.content
    if "gzip" in asked.get("Accept-Encoding", ""):
        content, headers["Content-Encoding"] = asset.compressed, "gzip"
    return Response(content, headers=headers, media_type=asset.media_type)
