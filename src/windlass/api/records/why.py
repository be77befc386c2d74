"""Why a job is not running."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field

from windlass.api.records.record import Record
from windlass.control.why.codes import Why


class WhyRecord(Record):
    """The reason why a job is not running."""

    code: str = Field(examples=["retry"])
    sentence: str = Field(
        examples=["retries at 14:05:10 UTC (in 4 min), attempt 3 of 5, after ValueError: bad row"]
    )
    details: dict[str, Any] = Field(default={}, description="Facts: times, ids, counts.")
    also: list[WhyRecord] = Field(default=[], description="Reasons that hold at the same time.")

    @classmethod
    def of(cls, found: Why) -> Self:
        also = [WhyRecord.of(one) for one in found.also]
        return cls(code=str(found.code), sentence=found.sentence, details=dict(found.details), also=also)
