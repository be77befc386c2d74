"""Makes dataclasses of the JSON of the API, by the types of their fields."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Record = Mapping[str, Any]


def made(kind: Callable[..., T], record: Record, **more: Any) -> T:
    """A record of a dataclass: members by the names of its fields, spans of time as ``NAME_seconds``; ``more`` is what JSON has in another form. What a
    later server adds is left out."""
    values = dict(more)
    for name, hint in _hints(kind).items():
        if name in more:
            continue
        if name in record:
            values[name] = _value(hint, record[name])
        elif (seconds := record.get(f"{name}_seconds")) is not None:
            values[name] = timedelta(seconds=seconds)
        elif f"{name}_seconds" in record:
            values[name] = None
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a dataclass, None left out of unions."""
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind) if item.init}


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (hint, *others) = [one for one in inner if one is not type(None)]
        return value if others else _value(hint, value)
    if origin is None:
        if hint is datetime:
            return datetime.fromisoformat(value)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return hint(value)
        return made(hint, value) if is_dataclass(hint) and isinstance(hint, type) else value
    if origin is tuple:
        return tuple(_value(inner[0], one) for one in value)
    if issubclass(origin, Mapping):
        return {name: _value(inner[1], one) for name, one in value.items()}
    return [_value(inner[0], one) for one in value] if issubclass(origin, Sequence) else value
