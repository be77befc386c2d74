"""Applications that a server loads before it forks; the store, the verifier, the locks and the waiter were used when the fork comes."""

import asyncio
import os
from typing import Annotated, Any

import windlass
from windlass import Principal, Verifier

TOKEN, KEY = os.environ["PRELOADED_TOKEN"], os.environ["PRELOADED_KEY"]
PARENT = os.getpid()

jobs = windlass.App()


@jobs.job
def double(n: int) -> int:
    return 2 * n


@jobs.job
def only_here(n: int) -> int:
    """The worker of the test does not know this kind."""
    return 3 * n


def fetch() -> dict[str, Any]:
    """A JWKS; the first fetch is done before the fork."""
    return {"keys": [{"kty": "oct", "kid": "hs", "k": KEY, "alg": "HS256"}]}


verifier = Verifier(algorithms=["HS256"], keys=fetch, issuer="https://id.example", audience="reports")
bg = windlass.build(jobs.config, app=jobs)

# Everything is used once before the fork.
with jobs.as_principal(verifier.verify(TOKEN)):
    before = only_here.enqueue(n=1)
    assert bg.process_request(before.id).job.result == 3
    assert before.result(30) == 3


def flask_web() -> Any:
    """Made by the parent, too: an application factory."""
    from flask import Flask, g

    from windlass.integrations.flask.bearer import Bearer

    web = Flask("preloaded")

    @web.post("/double/<int:n>")
    @Bearer(jobs, verifier)
    def route(n: int) -> dict[str, Any]:
        waited, here = double.enqueue(n), only_here.enqueue(n)
        result = bg.process_request(here.id).job.result
        return _found(waited.id, waited.result(60), result, g.principal)

    return web


def fastapi_web() -> Any:
    from fastapi import Depends, FastAPI

    from windlass.integrations.fastapi.bearer import Bearer

    web = FastAPI()
    signed_in = Bearer(jobs, verifier)

    @web.post("/double/{n}")
    async def route(n: int, user: Annotated[Principal, Depends(signed_in)]) -> dict[str, Any]:
        waited, here = await double.enqueue_async(n), await only_here.enqueue_async(n)
        result = (await asyncio.to_thread(bg.process_request, here.id)).job.result
        return _found(waited.id, await waited.result_async(60), result, user)

    return web


def _found(job: str, waited: int, here: object, user: Principal) -> dict[str, Any]:
    """One job that another process ran, and one that this process ran under a lock."""
    return {
        "job": job,
        "waited": waited,
        "here": here,
        "user": user.subject,
        "is_child": os.getpid() != PARENT,
    }
