"""Puts the API together: its middleware, its routes, its errors and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import State
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from windlass.api.access.access import Access
from windlass.api.document import describe
from windlass.api.middleware.body_limit import BodyLimit
from windlass.api.middleware.envelope import Envelope
from windlass.api.middleware.hosts import Hosts
from windlass.api.middleware.identify import Identify
from windlass.api.middleware.places import Places
from windlass.api.middleware.shared_reads import Reads, SharedReads
from windlass.api.problems import handlers
from windlass.api.quick_submit import QuickApi, QuickSubmit
from windlass.api.routes import (
    downloads,
    instances,
    job_acts,
    jobs,
    operations,
    phases,
    reports,
    rules,
    schedules,
    session,
    streams,
    submit,
    system,
)
from windlass.api.settings import ApiSettings
from windlass.api.streams.open_streams import OpenStreams
from windlass.api.streams.topics import Overview
from windlass.app.app import App

ROUTERS = (
    *(
        module.router
        for module in (
            submit,
            streams,
            jobs,
            job_acts,
            downloads,
            operations,
            phases,
            instances,
            schedules,
            rules,
            reports,
            system,
            session,
        )
    ),
    session.pages,
)
GZIP_FROM = 1000
"""Bytes of a response from which on it is compressed."""


def create_api(
    app: App,
    *,
    settings: ApiSettings | None = None,
    authenticate: Callable[..., Any] | None = None,
) -> FastAPI:
    """The REST API of an app, an ASGI application: serve it, or mount it under any path.

    >>> web = FastAPI(lifespan=lifespan(app))
    >>> web.mount("/jobs", create_api(app, authenticate=current_user))
    """
    chosen = settings or ApiSettings.of(app.config)
    access = Access(app, chosen, authenticate)
    api = QuickApi(
        title="Windlass",
        version="1",
        summary="Background jobs: submit, watch, act.",
        middleware=[
            Middleware(Envelope),
            *_cross_origin(chosen),
            Middleware(Hosts, hosts=chosen.hosts),
            Middleware(BodyLimit, settings=chosen),
            Middleware(Identify, access=access),
            Middleware(SharedReads),
            Middleware(GZipMiddleware, minimum_size=GZIP_FROM),
        ],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    api.state = prepared(app, chosen, access)
    api.quick = QuickSubmit(chosen, access)
    handlers.install(api)
    for router in ROUTERS:
        api.router.routes.extend(router.routes)  # not included: a router of routers finds a route slower
    describe(api)
    return api


def prepared(app: App, settings: ApiSettings, access: Access) -> State:
    """What the routes of an API use."""
    return State(
        {
            "windlass": app,
            "settings": settings,
            "access": access,
            "waits": Places(settings.waits, "too-many-waits"),
            "streams": OpenStreams(settings.streams),
            "overview": Overview(),
            "reads": Reads(),
        }
    )


def _cross_origin(settings: ApiSettings) -> Sequence[Middleware]:
    """Lets pages of the configured origins call the API; without origins no page of another origin can."""
    if not settings.origins:
        return ()
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PATCH", "PUT", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "If-Match",
                "Last-Event-ID",
                "Prefer",
            ],
            expose_headers=["ETag", "Link", "Location", "Retry-After", "X-Request-ID"],
        )
    ]
