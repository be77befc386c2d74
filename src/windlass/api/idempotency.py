"""The protocol of the header Idempotency-Key: a repeat of a request gets the response of the first one, and submits nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request

from windlass.api.access.caller import Caller
from windlass.api.problems.problem import ProblemError
from windlass.control.submitting import RequestKeyReused
from windlass.idempotency.store import RequestKey, RequestKeyInUse

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


async def request_key(request: Request, caller: Caller) -> RequestKey | None:
    """The key of a request, which is unique for each caller; None if it has none."""
    given = request.headers.getlist("Idempotency-Key")
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise ProblemError(
            "invalid-request",
            "the header Idempotency-Key must be one text of 1 to 255 printable ASCII characters without spaces",
            errors=[("header:Idempotency-Key", "must be 1 to 255 printable ASCII characters without spaces")],
        )
    who = caller.principal
    scope = hashlib.sha256(repr((who.issuer, who.tenant, who.subject)).encode()).hexdigest()
    body = hashlib.sha256(f"{request.method} {request.url.path}\n".encode() + await request.body())
    return RequestKey(scope, given[0], body.hexdigest())


@contextmanager
def keyed() -> Iterator[None]:
    """Make problems of what a key can lead to."""
    try:
        yield
    except RequestKeyReused:
        raise ProblemError(
            "idempotency-key-reused",
            errors=[("header:Idempotency-Key", "belongs to a request with another body")],
        ) from None
    except RequestKeyInUse:
        raise ProblemError("idempotency-key-in-use") from None
