"""Calls a phase's own probe, which says whether its output is there already, and makes the outcome of the job of its result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

from windlass.errors import WindlassError
from windlass.handlers.registry import Phase
from windlass.model import Failed, JobError, Json, Lease, Outcome
from windlass.observe.current_job import lease_fields
from windlass.observe.logger import get_logger

log = get_logger("windlass.engine")


def ended_before(phase: Phase, lease: Lease) -> Outcome | None:
    """The outcome of a job whose probe found its output; None if it did not. A probe that raises has not found it."""
    try:
        found = probe(phase, lease)
    except BaseException:  # SystemExit, too: the job is held here, and would be forever
        log.exception(
            "the probe of phase %s failed; job %s is run again",
            lease.phase,
            lease.id,
            extra=lease_fields(lease),
        )
        found = None
    if found is None or found is False:
        return None
    try:  # True says that it is there, not what it is: there is nothing to compare with the annotation
        text = None if found is True else Json(phase.signature.encode_result(found))
    except WindlassError as error:
        return Failed(lease, JobError(type="PayloadError", code="bad_result", message=str(error)))
    return phase.ended(lease, text)


def probe(phase: Phase, lease: Lease) -> Any:
    """Call a phase's probe: None or False says that the output is not there, True that it is, anything else is the output."""
    assert phase.probe is not None
    result = phase.probe(**phase.signature.decode_args(lease.args_json))
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result
