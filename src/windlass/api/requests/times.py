"""Times in requests: RFC 3339 texts with a time zone, and no numbers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator


def _text(value: Any) -> Any:
    """Refuse numbers: pydantic would read them as seconds or milliseconds since 1970."""
    if not isinstance(value, str) or "-" not in value[1:]:
        raise ValueError("must be a time with a time zone, such as 2026-11-01T00:00:00Z")
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_text, json_schema_input_type=AwareDatetime)]
"""A time with a time zone."""
