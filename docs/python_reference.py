"""Makes the reference of the Python API from the public names: their signatures, and their docstrings."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

MODULES = (
    ("windlass", "The names of `windlass` itself."),
    ("windlass.retry", "Policies of retries, and calls that are repeated."),
    ("windlass.testing", "The [test kit](../guides/testing.md)."),
    ("windlass.client", "The [client of the REST API](../guides/client.md), with the extra `client`."),
    ("windlass.api", "The [REST API](../guides/rest-api.md), with the extra `api`."),
)
HEAD = """# Python

Generated from the public names of Windlass by `./dev docs`; do not edit.

A name that is not here is not public, and may change in any release.
[Errors](errors.md) have a page of their own, and the names of frameworks are in their guides: [FastAPI](../guides/fastapi.md), [Flask](../guides/flask.md), [Django](../guides/django.md), [SQLAlchemy](../guides/sqlalchemy.md).
"""
WIDTH = 100
STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def python_page() -> str:
    """The page."""
    lines = [HEAD]
    for name, about in MODULES:
        module = importlib.import_module(name)
        lines += [f"## {name}", "", about, ""]
        for label in sorted(module.__all__, key=str.lower):
            found = getattr(module, label)
            is_error = inspect.isclass(found) and issubclass(found, BaseException)
            if not inspect.ismodule(found) and not (is_error and name == "windlass"):
                lines += _entry(label, found)
    return "\n".join(lines).rstrip() + "\n"


def _entry(label: str, found: Any) -> Iterator[str]:
    yield from (f"### {label}", "")
    if inspect.isclass(found):
        yield from _class(label, found)
    elif callable(found):
        yield from _signature(label, found)
        yield from _about(found)
    else:
        yield from (f"`{found!r}`", "")


def _class(label: str, found: type) -> Iterator[str]:
    is_enum = issubclass(found, enum.Enum)
    if not is_enum and any("__init__" in vars(base) for base in found.__mro__[:-1]):
        yield from _signature(label, found)
    yield from _about(found)
    if issubclass(found, enum.Enum):
        for member in found:
            yield f"- `{label}.{member.name}`: `{member.value!r}`"
        yield ""
    for name, member in _members(found):
        inner = getattr(member, "__func__", member)
        if isinstance(member, property):
            yield from (f"#### {label}.{name}", "", "*property*", "")
            yield from _about(member)
        elif callable(inner):
            yield from (f"#### {label}.{name}", "")
            yield from _signature(name, inner, is_method=not isinstance(member, staticmethod))
            yield from _about(inner)


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class or a base of Windlass defines, in the order of the code."""
    seen: set[str] = set()
    for base in found.__mro__:
        if not base.__module__.startswith("windlass"):
            continue
        for name, member in vars(base).items():
            is_new = name not in seen and not name.startswith("_")
            seen.add(name)
            if is_new and (
                isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
            ):
                yield name, member


def _signature(name: str, found: Any, *, is_method: bool = False) -> Iterator[str]:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return
    parameters = list(signature.parameters.values())[1 if is_method else 0 :]
    parts = list(_parts(parameters))
    returns = "" if inspect.isclass(found) else _annotation(signature.return_annotation, " -> ")
    is_async = "async " if inspect.iscoroutinefunction(found) else ""
    line = f"{is_async}{name}({', '.join(parts)}){returns}"
    if len(line) > WIDTH:
        line = f"{is_async}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    yield from ("```py", line, "```", "")


def _parts(parameters: Sequence[inspect.Parameter]) -> Iterator[str]:
    """The parameters of a signature, with the marks for positions and names."""
    last: Any = None
    for parameter in parameters:
        kind = parameter.kind
        if last is inspect.Parameter.POSITIONAL_ONLY and kind is not last:
            yield "/"
        if kind is inspect.Parameter.KEYWORD_ONLY and last not in (kind, inspect.Parameter.VAR_POSITIONAL):
            yield "*"
        last = kind
        star = STARS.get(kind, "")
        annotation = _annotation(parameter.annotation, ": ")
        default = "" if parameter.default is inspect.Parameter.empty else _default(parameter.default)
        yield f"{star}{parameter.name}{annotation}" + (
            f" = {default}" if annotation and default else f"={default}" if default else ""
        )
    if last is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def _annotation(annotation: Any, before: str) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return before + re.sub(
        r"\b(?:windlass|typing|collections|datetime)\.(?:\w+\.)*(?=[A-Z])",
        "",
        text.replace("datetime.timedelta", "timedelta"),
    )


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    if text.startswith("<"):  # the address of an object differs from run to run
        return value.__qualname__ if inspect.isclass(value) or inspect.isfunction(value) else "..."
    return text


def _about(found: Any) -> Iterator[str]:
    """A docstring as Markdown; examples become blocks."""
    text = (
        found.__doc__
        if isinstance(found, property)
        else inspect.getdoc(found)
        if _has_own_doc(found)
        else None
    )
    if not text or text.startswith(f"{getattr(found, '__name__', '')}("):  # what dataclass writes by itself
        return
    in_example = False
    for line in inspect.cleandoc(text).replace("``", "`").split("\n"):
        is_example = line.startswith((">>> ", "... "))
        if is_example != in_example:
            yield from (("", "```py") if is_example else ("```", ""))
            in_example = is_example
        yield line[4:] if is_example else line
    if in_example:
        yield "```"
    yield ""


def _has_own_doc(found: Any) -> bool:
    return not inspect.isclass(found) or found.__doc__ is not None
