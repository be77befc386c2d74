"""Signing in and out with a browser, and who the caller is.

A GET changes nothing here. The one-time link leads to the page ``/login``; its code stands behind ``#``, which browsers keep for themselves. A
script of the page removes it from the address and sends it in the body of a POST. So the link works with one click, and neither a preview of
the link nor a browser that fetches ahead uses it up, and no log has the code. Without scripts the page is a form.
"""

from __future__ import annotations

import asyncio
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from windlass.api.access.caller import LOCAL, Caller
from windlass.api.access.cross_site import require_own_page
from windlass.api.access.dependencies import allowed
from windlass.api.access.login_page import POLICY, SCRIPT, page
from windlass.api.problems.documented import problems
from windlass.api.problems.problem import ProblemError
from windlass.api.records.session import CallerRecord, LoginRequest
from windlass.api.requests.body import StrictRoute
from windlass.api.routes.dependencies import Call, acting
from windlass.app.app import App
from windlass.control.roles import principal_of
from windlass.errors import TokenError

router = APIRouter(tags=["session"], route_class=StrictRoute)
pages = APIRouter(include_in_schema=False)
SignedIn = Annotated[Call, Depends(acting(None))]
MAX_FORM = 1000
REFUSED = (
    "The code or token is not valid: a code can be used once and for an hour, a token may have been revoked."
)


@router.get("/v1/session", operation_id="get_session", responses=problems())
async def get_session(call: SignedIn) -> CallerRecord:
    """Who the caller is, and what it may do."""
    return CallerRecord.of(call.caller, call.app)


@router.post("/v1/session", operation_id="create_session", responses=problems())
async def create_session(given: LoginRequest, request: Request, response: Response) -> CallerRecord:
    """Begin a session: set a cookie, for the code of a one-time link or for an API token."""
    caller = await _begin(request, response, code=given.code, token=given.token)
    return CallerRecord.of(caller, request.app.state.windlass)


@router.delete("/v1/session", operation_id="delete_session", status_code=204, responses=problems())
async def delete_session(
    caller: Annotated[Caller, Depends(allowed(None))], request: Request, response: Response
) -> None:
    """End the session of the cookie."""
    request.app.state.access.sessions.end(request, response)


@pages.get("/login")
async def login_page() -> Response:
    """The page that one-time links lead to."""
    return HTMLResponse(page(), headers={"Content-Security-Policy": POLICY})


@pages.get("/login.js")
async def login_script() -> Response:
    """The script of the page."""
    return Response(SCRIPT, media_type="text/javascript")


@pages.post("/login")
async def login_form(request: Request) -> Response:
    """Begin a session from the form of the page, and lead to the dashboard."""
    text = b""
    async for part in request.stream():
        text += part
        if len(text) > MAX_FORM:
            raise ProblemError("body-too-large")
    found = parse_qs(text.decode("utf-8", "replace")).get("secret", [""])[0].strip()
    home = RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}/", status_code=303)
    is_token = found.startswith("wl_")
    try:
        await _begin(request, home, code=None if is_token else found, token=found if is_token else None)
    except ProblemError as problem:
        if problem.kind.code != "unauthenticated":
            raise
        return HTMLResponse(page(REFUSED), 401, headers={"Content-Security-Policy": POLICY})
    return home


async def _begin(request: Request, response: Response, *, code: str | None, token: str | None) -> Caller:
    """Begin a session; ``unauthenticated`` for a code or a token that is not valid."""
    require_own_page(request, must_tell=False)
    app: App = request.app.state.windlass
    sessions = request.app.state.access.sessions
    if token is not None and code is None:
        try:
            found = await asyncio.to_thread(app.store.tokens.verify, token)
        except TokenError:
            raise ProblemError("unauthenticated", REFUSED) from None
        sessions.begin(request, response, found.id)
        return Caller.of(principal_of(found), "session")
    if code is None or token is not None:
        wrong = "must have code or token, and not both"
        raise ProblemError("invalid-request", f"the body {wrong}", errors=[("#", wrong)])
    if not sessions.take_code(code):
        raise ProblemError("unauthenticated", REFUSED)
    sessions.begin(request, response, None)
    return Caller.of(LOCAL, "session")
