"""The responses of an operation that are problems, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from windlass.api.problems.kinds import KINDS
from windlass.api.problems.problem import MEDIA_TYPE, Problem

ALWAYS = (400, 401, 403, 421, 422, 500, 503)
"""Statuses that any operation may have."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems of an operation: these, and those that all have."""
    return {status: _response(status) for status in sorted({*ALWAYS, *statuses})}


def _response(status: int) -> dict[str, Any]:
    kinds = sorted(kind.code for kind in KINDS.values() if kind.status == status)
    return {
        "description": f"A problem: {', '.join(kinds)}.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }
