"""The header Prefer (RFC 7240): how long a request may wait for the end of its job."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

from windlass.api.problems.problem import ProblemError

Prefer = Annotated[
    str | None,
    Header(description="`wait=N`: wait up to N seconds.", examples=["wait=10"]),
]
_WAIT = re.compile(r"wait\s*=\s*\"?(?P<seconds>[0-9]{1,9})\"?", re.IGNORECASE)


def wanted_wait(prefer: str | None, longest: float) -> float:
    """The seconds that a client wants to wait, at most ``longest``; 0 without ``wait``. Other preferences are ignored."""
    for part in (prefer or "").split(","):
        name = part.partition(";")[0].strip()
        if name.lower().startswith("wait"):
            found = _WAIT.fullmatch(name)
            if found is None:
                raise ProblemError(
                    "invalid-request",
                    "the header Prefer must have wait=SECONDS, a whole number",
                    errors=[("header:Prefer", "wait must be a whole number of seconds, such as wait=10")],
                )
            return min(float(found["seconds"]), longest)
    return 0.0
