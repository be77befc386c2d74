"""FastAPI and Starlette: a worker beside the web application, or only what it takes to submit.

    jobs = windlass.App()
    web = FastAPI(lifespan=lifespan(jobs))                  # submits, and serves jobs in the same process
    web = FastAPI(lifespan=lifespan(jobs, worker=False))    # submits; workers run elsewhere

The worker's threads and its event loop are its own: a handler that blocks does not stop requests, and a pool or async engine that
belongs to the web application's loop must not be used in handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from windlass.app.app import App
from windlass.engine.engine import Engine

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(
    app: App, *, worker: bool = True, inner: Lifespan | None = None, **changes: Any
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """A lifespan for ``FastAPI(lifespan=…)``.

    The database is opened before the first request, so that a wrong URL is found at the start. With ``worker`` jobs are served until
    the application stops; then running ones have their grace time (``grace=…`` and other settings may be given), and the rest is given
    back. ``inner`` is a lifespan of your own, begun after this one and ended before it. Requests find the app as
    ``request.state.windlass``.
    """

    @asynccontextmanager
    async def run(web: Any) -> AsyncIterator[Mapping[str, Any]]:
        try:
            engine = await asyncio.to_thread(_begin, app, worker, changes)
            try:
                async with inner(web) if inner is not None else nullcontext() as state:
                    yield {**(state or {}), "windlass": app, "windlass_engine": engine}
            finally:
                if engine is not None:
                    await asyncio.to_thread(engine.stop)
        finally:
            await asyncio.to_thread(app.close)

    return run


def _begin(app: App, worker: bool, changes: Mapping[str, Any]) -> Engine | None:
    if not worker:
        app.store.now()  # opened, and the database answers
        return None
    engine = app.worker(**changes)
    engine.start()
    return engine
