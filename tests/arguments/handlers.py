"""A handler with a model and an injected service, and the error of a call that is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    computed_field,
)

from windlass.errors import PayloadError

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Mailer:
    """Stands for a dependency."""


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    price: Decimal
    count: int = 1
    sku: str = Field("none", alias="SKU")

    @computed_field
    def total(self) -> Decimal:
        return self.price * self.count


class Order(BaseModel):
    id: UUID
    lines: list[Line]
    made_at: datetime = NOON


async def welcome(user_id: int, mailer: Mailer, order: Order | None = None, *, note: str = "hi") -> str:
    return note


def is_mailer(annotation: Any) -> bool:
    return annotation is Mailer


def refusal(call: Any, *args: Any, **kwargs: Any) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        call(*args, **kwargs)
    assert "tests.arguments." in caught.value.what, "the message names the handler"
    assert caught.value.__suppress_context__, "pydantic's own error may quote secrets"
    str(caught.value).encode()
    assert "\0" not in str(caught.value)
    return caught.value
