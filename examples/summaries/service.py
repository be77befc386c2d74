"""The service, wired by ``windlass.build``: nothing is global, and each part can be given by a test.

A request runs in the process that took it, under the lock of its id. A worker beside it runs requests whose process died.

    EXAMPLES_MODEL_URL=… WINDLASS_REDIS_URL=redis://… uvicorn --factory windlass_examples.summaries.service:create_service
"""

import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import BackgroundTasks, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import windlass
from windlass import Background, Job, WindlassError
from windlass_examples.summaries import jobs
from windlass_examples.web.addresses import RefusedError
from windlass_examples.web.fetching import Fetcher

HEADER = "X-Correlation-ID"
CONFIG: Mapping[str, Any] = {
    "background.retry.attempts": 4,
    "background.retry.base_delay_ms": 500,
    "background.retry.max_delay_ms": 30_000,
    "background.retry.jitter_ratio": 0.2,
    "runtime.max_concurrent_calls": 8,
}
SAFETY_NET = 5.0
"""Seconds after which a worker may run a request. The process that took it begins at once; until then it has it for itself."""
_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


class Wanted(BaseModel):
    """The body of ``POST /summaries``."""

    url: str


def create_service(
    config: Mapping[str, Any] | None = None, *, redis: Any = None, logger: logging.Logger | None = None
) -> FastAPI:
    """The service. ``config`` are settings of Windlass over the defaults above, ``redis`` is a client to share."""
    log = logger or logging.getLogger("summaries")

    @asynccontextmanager
    async def lifespan(web: FastAPI) -> AsyncIterator[None]:
        bg = windlass.build({**CONFIG, **(config or {})}, app=jobs.app, redis=redis, logger=logger)
        worker = bg.worker(grace=5.0)
        try:
            await run_in_threadpool(jobs.create, bg.app.url)
            await run_in_threadpool(worker.start)
            web.state.bg = bg
            yield
        finally:
            await run_in_threadpool(worker.stop)
            bg.close()

    web = FastAPI(title="URL summaries", lifespan=lifespan)

    @web.middleware("http")
    async def correlate(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.headers.get(HEADER, "")
        found = given if _ID.fullmatch(given) else str(uuid.uuid4())
        request.state.correlation_id = found
        try:
            response = await call(request)
        except Exception:
            log.exception("request.failed", extra={"correlation_id": found})
            response = _error(
                500, "internal", "the request failed; the log has more under its correlation id", found
            )
        response.headers[HEADER] = found
        log.info(
            "request.served",
            extra={"correlation_id": found, "path": request.url.path, "status": response.status_code},
        )
        return response

    @web.exception_handler(RefusedError)
    async def refused(request: Request, refusal: Exception) -> JSONResponse:
        return _error(422, "page_refused", str(refusal), request.state.correlation_id)

    @web.post("/summaries", status_code=202)
    def create(wanted: Wanted, request: Request, later: BackgroundTasks) -> dict[str, Any]:
        bg: Background = request.app.state.bg
        url = Fetcher.from_environment().check(wanted.url).url
        correlation_id: str = request.state.correlation_id
        kind = bg.app.kind(jobs.KIND).options(
            key=windlass.Key(url, windlass.KeyScope.IDEMPOTENT),
            correlation_id=correlation_id,
            delay=SAFETY_NET,
        )
        job = kind.enqueue(url=url)
        later.add_task(bg.process_request, job.id, job.job().correlation_id)
        return {"request": job.id, "is_new": job.created, "correlation_id": job.job().correlation_id}

    @web.get("/summaries/{request_id}")
    def show(request_id: str, request: Request) -> dict[str, Any]:
        bg: Background = request.app.state.bg
        job = _job(bg, request_id)
        found = jobs.read(bg.app.url, job.id)
        return {
            "request": job.id,
            "status": "success"
            if job.state == "completed"
            else "error"
            if job.state.is_final
            else "processing",
            "correlation_id": job.correlation_id,
            "summary": found[0] if found else None,
            "error": structured(job),
        }

    @web.post("/summaries/{request_id}/process")
    def process(request_id: str, request: Request) -> dict[str, str]:
        """Run a request now: after an error, or where its process died."""
        bg: Background = request.app.state.bg
        job = _job(bg, request_id)
        if job.state in ("failed", "cancelled"):
            bg.app.handle(job.id).retry()
        return {"status": str(bg.process_request(job.id, request.state.correlation_id).status)}

    @web.get("/health")
    def health(request: Request) -> dict[str, Any]:
        bg: Background = request.app.state.bg
        return bg.health()

    @web.get("/metrics")
    def metrics(request: Request) -> Response:
        bg: Background = request.app.state.bg
        return Response(bg.metrics(), media_type="text/plain; version=0.0.4")

    return web


def structured(job: Job) -> dict[str, Any] | None:
    """The error of a request as its caller sees it; no traceback leaves the service."""
    if not job.error:
        return None
    known = {name: job.error.get(name) for name in ("type", "code", "message")}
    stage = str(job.error.get("phase", "")).partition(":")[2]
    return {**known, "stage": stage, "correlation_id": job.correlation_id}


def _job(bg: Background, request_id: str) -> Job:
    try:
        job = bg.app.jobs.get(request_id)
    except WindlassError as error:
        raise HTTPException(404, "there is no such request") from error
    if job.kind != jobs.KIND:
        raise HTTPException(404, "there is no such request")
    return job


def _error(status: int, code: str, message: str, correlation_id: str) -> JSONResponse:
    return JSONResponse({"code": code, "message": message, "correlation_id": correlation_id}, status)
