"""The OpenAPI document: how problems and credentials are described in it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from windlass.api.examples import add_examples
from windlass.api.problems.problem import Problem
from windlass.api.streams.documented import EVENTS

SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A JWT, or an API token of `windlass token create`.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "windlass_session",
        "description": "A session of a browser.",
    },
}
OPEN = frozenset({"get_liveness", "get_readiness", "create_session"})
"""The operations that need no credentials."""


def describe(api: FastAPI) -> None:
    """Have the OpenAPI document describe problems once, as the only form of errors, the data of streams, and the credentials of every operation."""
    made = api.openapi

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            api.openapi_schema = _completed(made())
        return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    streamed_and_problems: list[type[BaseModel]] = [Problem, *EVENTS.values()]
    _, described = models_json_schema(
        [(model, "serialization") for model in streamed_and_problems],
        ref_template="#/components/schemas/{model}",
    )
    schemas |= described["$defs"] | schemas
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["securitySchemes"] = SCHEMES
    for operations in document["paths"].values():
        for operation in operations.values():
            _drop_unused(operation)
            operation["security"] = (
                [] if operation["operationId"] in OPEN else [{name: []} for name in SCHEMES]
            )
    add_examples(document)
    return document


def _drop_unused(operation: dict[str, Any]) -> None:
    """Leave out the JSON that the framework adds to responses that state another media type."""
    for response in operation["responses"].values():
        content = response.get("content", {})
        if len(content) > 1 and content.get("application/json", {}).get("schema") == {}:
            del content["application/json"]
