"""What all records have in common."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

ID_EXAMPLE = "019a2b3c-4d5e-7f60-8a1b-2c3d4e5f6071"


def rfc3339(moment: datetime) -> str:
    """A time in UTC with microseconds and ``Z``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Moment = Annotated[
    datetime,
    PlainSerializer(rfc3339, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization"),
]
"""A time, in UTC."""
Id = Annotated[str, Field(examples=[ID_EXAMPLE])]
"""The id of a job or of an operation."""


class Record(BaseModel):
    """A record of the library as JSON: its attributes by their names."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, found: Any) -> Self:
        """The record of an object of the library."""
        return cls.model_validate(found)

    @classmethod
    def each(cls, found: Iterable[Any]) -> list[Self]:
        """The records of many objects."""
        return [cls.of(one) for one in found]
