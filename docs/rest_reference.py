"""Makes the reference of the REST API from its OpenAPI document: a table of requests for each tag, with their parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

HEAD = """# REST API

Generated from the OpenAPI document of the REST API by `./dev docs`; do not edit.

The guide [REST API](../guides/rest-api.md) explains how to use it, [its security](../guides/api-security.md) who may do what.
[openapi.json](openapi.json) is the whole document, with all schemas; a server has it at `/openapi.json`.
"""
PROBLEM = " (`Problem`)"
METHODS = ("get", "post", "put", "patch", "delete")


def rest_page(document: Mapping[str, Any]) -> str:
    """The page."""
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = defaultdict(list)
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                by_tag[(item[method].get("tags") or ["other"])[0]].append((path, method, item[method]))
    lines = [HEAD]
    for tag in sorted(by_tag):
        lines += [f"## {tag.capitalize()}", ""]
        for path, method, operation in by_tag[tag]:
            lines += _request(document, path, method, operation)
    return "\n".join(lines).rstrip() + "\n"


def _request(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    yield from (f"### {method.upper()} {path}", "")
    if about := operation.get("description"):
        yield from (about.replace("``", "`"), "")
    rows = [_resolved(document, one) for one in operation.get("parameters", ())]
    if rows:
        yield from ("| parameter | in | meaning |", "|---|---|---|")
        for one in rows:
            needed = ", needed" if one.get("required") and one["in"] != "path" else ""
            about = " ".join(
                (one.get("description") or one.get("schema", {}).get("description") or "").split()
            )
            yield f"| `{one['name']}` | {one['in']}{needed} | {about.replace('|', '&#124;')} |"
        yield ""
    if body := operation.get("requestBody"):
        kinds = [
            f"{kind}{_named(content.get('schema', {}))}" for kind, content in body.get("content", {}).items()
        ]
        yield from (f"Body: {', '.join(kinds)}.", "")
    replies = {status: _reply(reply) for status, reply in operation.get("responses", {}).items()}
    good = [f"{status}{name}" for status, name in replies.items() if name != PROBLEM]
    bad = [status for status, name in replies.items() if name == PROBLEM]
    yield from (f"Replies: {', '.join(good)}; problems: {', '.join(bad) or 'none'}.", "")


def _reply(reply: Mapping[str, Any]) -> str:
    for content in reply.get("content", {}).values():
        return _named(content.get("schema", {}))
    return ""


def _named(schema: Mapping[str, Any]) -> str:
    """The name of a schema of the document, in brackets."""
    name = str(schema.get("$ref") or schema.get("items", {}).get("$ref") or "").rpartition("/")[2]
    return f" (`{name}`)" if name else ""


def _resolved(document: Mapping[str, Any], one: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in one:
        found: Any = document
        for part in one["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return dict(found)
    return one
