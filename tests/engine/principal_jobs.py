"""An app whose handlers run in processes of their own, for test_principal.py."""

from __future__ import annotations

import base64
import logging
import os
import sys

from windlass.app.app import App
from windlass.handlers.context import Context
from windlass.model import NewJob
from windlass.model.principal import Principal

KEY = base64.b64encode(bytes(range(32))).decode()
CANARY = "canary-9f8e7d6c5b4a-token"

app = App(config={"principal.keys": f"k:{KEY}"})


@app.recheck_principal
def still_allowed(principal: Principal) -> Principal:
    if principal.has("revoked"):
        raise PermissionError("no longer employed")
    return principal.narrowed(roles=principal.roles - {"lost"})


@app.job(executor="process")
def seen_in_process(principal: Principal, ctx: Context) -> list[str]:
    assert ctx.principal == principal
    return [principal.subject, *sorted(principal.roles), *principal.allowed_values("county")]


@app.job(executor="process", principal_expiry="fail")
def fails_in_process() -> str:
    return "ran"


@app.job(executor="process", principal_expiry="recheck")
async def rechecked_in_process(ctx: Context) -> str:
    ctx.require("lost")
    return "ran"


@app.job(executor="process", principal_expiry="recheck")
def revoked_in_process() -> str:
    return "ran"


@app.job(executor="process")
def child_in_process(ctx: Context) -> str:
    return ctx.require().subject


@app.job(executor="process")
def parent_in_process(ctx: Context) -> str:
    ctx.enqueue(NewJob(kind="child_in_process"))
    return "done"


@app.job(executor="process")
def token_in_process(how: str, ctx: Context) -> str:
    """Puts the token wherever it should not be."""
    token = ctx.token()
    logging.getLogger("shop").warning("calling with %s", token)
    match how:
        case "raise":
            error = RuntimeError(f"401 for {token}")
            error.sent = token  # type: ignore[attr-defined]
            raise error
        case "return":
            return f"Bearer {token}"
        case "die":
            print(f"dying with {token}", file=sys.stderr, flush=True)
            os._exit(7)
        case _:
            return f"{len(token)} characters"
