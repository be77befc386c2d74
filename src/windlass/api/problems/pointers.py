"""Pointers to the wrong parts of a request: JSON pointers (RFC 6901) into a body, and names of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

MOST = 50
"""Wrong parts that one problem names at most."""


def pointer(parts: Iterable[object]) -> str:
    """A JSON pointer as a fragment: ``#/arguments/user``."""
    return "#" + "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def of_field(field: str, base: Sequence[object] = ()) -> str:
    """The pointer of a path such as ``args.user[0]``, as errors of arguments have it."""
    parts = field.replace("[", ".").replace("]", "").split(".")
    if parts[0] == "args":
        parts[0] = "arguments"
    return pointer([*base, *(part for part in parts if part)])


def of_errors(found: Sequence[Any]) -> list[tuple[str, str]]:
    """Pointers and texts of pydantic's errors."""
    return [(_of_location(item.get("loc", ())), _text(item)) for item in found[:MOST]]


_TEXTS = {
    ("missing", True): "the request needs a body: a JSON object",
    ("model_attributes_type", True): "the body must be a JSON object",
    ("missing", False): "is missing",
    ("extra_forbidden", False): "this request has no such member; /openapi.json lists its members",
}
"""What is said in place of pydantic's text: by the type of the error, and whether it is about the whole body."""


def _of_location(location: Sequence[object]) -> str:
    where, *rest = location or ("body",)
    if where == "body":
        return pointer(rest)
    return f"{where}:{'.'.join(map(str, rest))}"


def _text(item: dict[str, Any]) -> str:
    if text := _TEXTS.get((str(item.get("type")), len(item.get("loc", ())) <= 1)):
        return text
    message = str(item.get("msg", "is wrong"))
    return message.removeprefix("Value error, ")
