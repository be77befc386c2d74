"""Titles of jobs: what people read instead of an id, made of the arguments when a job is shown. Nothing is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from windlass.errors import ConfigError, did_you_mean
from windlass.store.validators import is_text

MAX_TITLE = 200
FIRST = 2
"""How many arguments the title of a job has whose kind has no template."""
EXAMPLE = 'a text with names of arguments in braces, for example "invoice {number} of {customer.name}"'
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH = re.compile(r"[^\W\d]\w*(\.[^.{}\s]+)*")
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Title:
    """A template such as ``invoice {number}``: names of arguments, and paths into them, in braces."""

    def __init__(self, template: object, parameters: Iterable[str]) -> None:
        if not is_text(template) or not template.strip():
            raise ConfigError("title", template, EXAMPLE)
        known = list(parameters)
        self._parts: list[str | tuple[str, ...]] = []
        end = 0
        for found in _PART.finditer(template):
            self._parts.append(template[end : found.start()])
            end = found.end()
            if found[0] in ("{{", "}}"):
                self._parts.append(found[0][0])
                continue
            path = found[1]
            if path is None or not _PATH.fullmatch(path):
                raise ConfigError("title", template, f"{EXAMPLE}; a brace itself is written twice")
            names = tuple(path.split("."))
            if names[0] not in known:
                near = did_you_mean(names[0], known)
                raise ConfigError(
                    "title", template, f"a text that names arguments of the handler: {', '.join(known)}{near}"
                )
            self._parts.append(names)
        self._parts.append(template[end:])

    def of(self, arguments: Mapping[str, Any]) -> str:
        """The title of a job with these arguments; one that is missing is an ellipsis."""
        return shortened(
            "".join(part if isinstance(part, str) else _text(_value(arguments, part)) for part in self._parts)
        )


def plain_title(kind: str, arguments: Any) -> str:
    """The title of a job whose kind has no template, or is not known here: the kind and its first short arguments."""
    values = arguments.values() if isinstance(arguments, Mapping) else ()
    shown = [_text(one) for one in values if isinstance(one, (str, int, float)) and one != ""]
    return shortened(" · ".join([kind, *shown[:FIRST]]))


def shortened(text: str) -> str:
    """A text in one line, of at most 200 characters."""
    text = _SPACE.sub(" ", text[: 4 * MAX_TITLE]).strip()
    return text if len(text) <= MAX_TITLE else f"{text[: MAX_TITLE - 1]}…"


def _value(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(arguments, Mapping) or name not in arguments:
            return None
        arguments = arguments[name]
    return arguments


def _text(value: Any) -> str:
    if value is None:
        return "…"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
