"""Arguments of jobs on the command line: ``name=value``, ``@FILE`` and ``-``, read by the types of the handler."""

from __future__ import annotations

import inspect
import json
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from windlass.handlers.registry import Kind


def arguments_of(texts: Sequence[str], kind: Kind | None) -> dict[str, Any]:
    """The arguments that these texts give, in their order: ``name=value``, ``@FILE`` (a JSON object) or ``-`` (a JSON object on stdin).

    A value that is JSON is taken as JSON, anything else as text. For a parameter that takes texts, the value is the text.
    """
    types = {} if kind is None else _types(kind.first.handler)
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if text == "-":
            found.update(_object(sys.stdin.read(), "standard input"))
        elif text.startswith("@"):
            found.update(_object(_content(text[1:]), text[1:]))
        elif not sign or not name:
            raise click.UsageError(f"{text!r} is no argument; write name=value, @FILE or - for JSON on stdin")
        else:
            found[name] = _value(value, types.get(name))
    return found


def _value(text: str, wanted: Any) -> Any:
    members = typing.get_args(wanted) if typing.get_origin(wanted) in (typing.Union, UnionType) else (wanted,)
    is_text = str in members and all(member in (str, type(None)) for member in members)
    if is_text and not (text == "null" and len(members) > 1):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _types(handler: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a handler; none where they cannot be read, and then values are taken by their form."""
    try:
        return typing.get_type_hints(inspect.unwrap(handler))
    except Exception:  # noqa: BLE001  annotations are the application's own expressions
        return {}


def _content(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise click.UsageError(f"@{name} cannot be read: {reason}") from error


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{where} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{where} must be a JSON object, arguments by name: it is {_kind(found)}")
    return found


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", type(None): "null"}.get(type(value), f"{value!r}")
