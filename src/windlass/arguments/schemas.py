"""pydantic's schemas of a handler's arguments and of its result."""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError
from typing_extensions import TypedDict  # pydantic takes typing's own only from 3.12 on

from windlass.arguments.encoding import Writer
from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError

# Called with fields known only at run time, which type checkers do not follow.
_make_typed_dict: Any = TypedDict
_TYPES = re.compile(r"'type': '([\w-]+)'").findall
INERT = frozenset(
    [
        "typed-dict",
        "typed-dict-field",
        "int",
        "float",
        "str",
        "bool",
        "none",
        "nullable",
        "union",
        "literal",
        "list",
        "tuple",
        "dict",
        "datetime",
        "date",
        "time",
        "timedelta",
        "uuid",
    ]
)
"""The types of a schema that call nothing of the application's."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """pydantic's compiled functions for one type, without the adapter's Python layer (0.3 µs a call)."""

    validate: Callable[[Any], Any]
    validate_json: Callable[[str | bytes], Any]
    writer: Writer
    is_inert: bool
    """Whether all of it is pydantic's own: nothing of the application's is called."""

    @classmethod
    def of(cls, annotation: Any) -> Schema:
        adapter = TypeAdapter[Any](annotation)
        if not adapter.pydantic_complete:
            raise PydanticUserError("a class it refers to is not defined yet", code=None)
        described = repr(adapter.core_schema)
        # Written by field name and read by name or alias, so that models with aliases come back.
        return cls(
            validate=functools.partial(adapter.validator.validate_python, by_alias=True, by_name=True),
            validate_json=functools.partial(adapter.validator.validate_json, by_alias=True, by_name=True),
            writer=Writer(
                # Without warnings: a value changed after validation is stored as it is and refused when it is read.
                functools.partial(
                    adapter.serializer.to_json, by_alias=False, round_trip=True, warnings=False
                ),
                is_bare="'serialization'" not in described,
            ),
            is_inert="'serialization'" not in described and INERT.issuperset(_TYPES(described)),
        )


def args_schema(name: str, fields: dict[str, Any], hints: dict[str, Any]) -> Schema:
    """The schema of arguments by name; ``ConfigError`` names the parameter that pydantic cannot validate."""
    # A TypedDict rather than a model: it keeps only what was given, takes any parameter name, and returns the dict.
    try:
        arguments: Any = _make_typed_dict("Arguments", fields)
        arguments.__pydantic_config__ = ConfigDict(extra="forbid")
        return Schema.of(arguments)
    except (PydanticUserError, SchemaError) as whole:
        for key in fields:
            try:
                Schema.of(hints.get(key, Any))
            except (PydanticUserError, SchemaError) as error:
                raise ConfigError(
                    f"parameter {key} of {name}",
                    getattr(hints[key], "__name__", hints[key]),
                    because=f"it is neither injected nor a type pydantic can validate ({explain(error)})",
                ) from error
        raise ConfigError(f"the parameters of {name}", tuple(fields), because=explain(whole)) from whole


def result_schema(annotation: Any) -> Schema | None:
    """The schema of a result; None if its annotation says nothing about it."""
    if annotation in (Any, object, typing.NoReturn, typing.Never):
        return None
    try:
        return Schema.of(annotation)
    except (PydanticUserError, SchemaError):
        return None  # not a type pydantic knows: the result is judged by what it is
