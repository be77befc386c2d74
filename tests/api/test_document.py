"""The OpenAPI document: valid, current, and with an example of every body that its own schema accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(COMMITTED.read_text("utf-8"))
    return found


def test_the_committed_document_is_valid_and_current(document: Mapping[str, Any], built_api: FastAPI) -> None:
    assert document["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(document).validate()
    assert document["paths"] == json.loads(json.dumps(built_api.openapi()["paths"]))


def bodies(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Every body of a request and of a success: its name, its media type and its content."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = f"{method} {path}"
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                yield f"{name} request", media_type, content
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    for media_type, content in response.get("content", {}).items():
                        yield f"{name} {status}", media_type, content


def examples(document: Mapping[str, Any], content: Mapping[str, Any]) -> list[Any]:
    """The examples of a body: its own, or those of its schema."""
    if "example" in content:
        return [content["example"]]
    schema = content["schema"]
    named = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    return list(named.get("examples", []))


def errors(document: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> list[str]:
    whole = {**schema, "components": document["components"]}
    found = Draft202012Validator(whole, format_checker=FormatChecker()).iter_errors(value)
    return [f"{one.json_path}: {one.message}" for one in found]


def test_every_body_has_an_example_that_its_schema_accepts(document: Mapping[str, Any]) -> None:
    checked = 0
    for name, media_type, content in bodies(document):
        if media_type != "application/json" and "request" not in name:
            continue  # text, and streams of events
        found = examples(document, content)
        assert found, f"{name} has no example"
        for example in found:
            assert errors(document, content["schema"], example) == [], name
            checked += 1
    assert checked > 80


def test_every_named_schema_has_an_example_that_it_accepts(document: Mapping[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        if schema.get("type") != "object":
            continue
        assert schema.get("examples"), f"{name} has no example"
        for example in schema["examples"]:
            assert errors(document, schema, example) == [], name


def test_an_example_that_does_not_fit_is_found(document: Mapping[str, Any]) -> None:
    body = document["components"]["schemas"]["JobBody"]
    assert errors(document, body, {"kind": 7}) and errors(document, body, {})


def test_a_response_names_no_media_type_that_it_never_has(document: Mapping[str, Any]) -> None:
    for name, media_type, _ in bodies(document):
        if name.endswith((" /metrics 200", "/events 200", "/problems/{code} 200")):
            assert media_type != "application/json", name
    accepted = document["paths"]["/v1/jobs"]["post"]["responses"]["202"]["content"]["application/json"]
    assert accepted["schema"] == {"$ref": "#/components/schemas/SubmittedRecord"}
