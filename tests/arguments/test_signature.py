"""A handler's annotations decide what may be enqueued and what the handler gets back."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Optional
from uuid import UUID

import pytest
from pydantic import (
    Base64Bytes,
    BaseModel,
    Field,
    PlainSerializer,
    SecretStr,
    field_validator,
)

from tests.arguments.handlers import NOON, Line, Mailer, Order, is_mailer, refusal, welcome
from windlass.arguments.limits import Limits, PayloadLimits
from windlass.arguments.signature import Signature
from windlass.errors import PayloadTooLargeError

if TYPE_CHECKING:
    pass


UUID_7 = UUID("01890000-0000-7000-8000-000000000007")


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Picky(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def check_x(cls, x: int) -> int:
        if x == 13:
            raise ValueError("unlucky\0")
        if x == 14:
            raise KeyError("a bug in the validator")
        return x


WELCOME = Signature.of(welcome, injected=is_mailer)


def test_what_a_signature_tells() -> None:
    assert WELCOME.handler == "tests.arguments.handlers.welcome"
    assert WELCOME.parameters == ("user_id", "order", "note")
    assert WELCOME.injected == {"mailer": Mailer}


# -- enqueue --


def test_bind_takes_position_and_name_and_leaves_defaults_out() -> None:
    assert WELCOME.bind(7) == {"user_id": 7}
    assert WELCOME.bind("7", None, note="x") == {"user_id": 7, "order": None, "note": "x"}
    assert WELCOME.bind(user_id=7, order={"id": str(UUID_7), "lines": []}) == {
        "user_id": 7,
        "order": Order(id=UUID_7, lines=[]),
    }
    assert WELCOME.encode_args("7") == '{"user_id":7}'


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "text"),
    [
        ((), {}, "args.user_id", "is missing"),
        (("seven",), {}, "args.user_id", "valid integer"),
        ((1, None, "note"), {}, "args", "3 positional arguments"),
        ((1,), {"user_id": 1}, "args.user_id", "given twice"),
        ((1,), {"ordr": None}, "args.ordr", "did you mean order?"),
        ((), {"user_ids": 1}, "args.user_ids", "did you mean user_id?"),
        ((1,), {"zzz": None}, "args.zzz", "it takes user_id, order, note"),
        ((1,), {"mailer": None}, "args.mailer", "injected"),
        ((1, {"lines": []}), {}, "args.order.id", "is missing"),
        (
            (1, {"id": UUID_7, "lines": [{"price": 1}, {"price": "x"}]}),
            {},
            "args.order.lines[1].price",
            "decimal",
        ),
        ((1, {"id": UUID_7, "lines": [{"price": 1, "zz": 1}]}), {}, "args.order.lines[0].zz", "Extra inputs"),
        ((1,), {"note": "a\0"}, "args.note", "NUL"),
        ((1,), {"note": "\ud800"}, "args.note", "lone surrogate"),
        ((10**1000,), {}, "args.user_id", "1,000 digits"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    args: tuple[Any, ...], kwargs: dict[str, Any], field: str, text: str
) -> None:
    error = refusal(WELCOME.encode_args, *args, **kwargs)
    assert error.field == field
    assert text in str(error)


def test_errors_never_show_the_value() -> None:
    assert "hunter2" not in str(refusal(WELCOME.bind, "hunter2"))


def test_union_members_are_not_part_of_the_path() -> None:
    def handler(x: int | list[int] | Order) -> None: ...

    signature = Signature.of(handler)
    assert refusal(signature.bind, {"id": 1}).field == "args.x"
    assert refusal(signature.bind, ["a"]).field == "args.x"
    assert refusal(signature.bind, x=object()).field == "args.x"
    counts: defaultdict[str, int] = defaultdict(int)
    assert refusal(signature.bind, counts).field.startswith("args.x")
    assert not counts, "looking for the field leaves the value alone"


def test_validators_that_raise_are_refusals_too() -> None:
    def handler(p: Picky) -> None: ...

    signature = Signature.of(handler)
    assert refusal(signature.bind, {"x": 13}).field == "args.p.x"
    assert "unlucky" in str(refusal(signature.bind, {"x": 13}))
    assert "KeyError" in str(refusal(signature.bind, {"x": 14}))
    assert "KeyError" in str(refusal(signature.decode_args, '{"p":{"x":14}}'))


def test_limits_are_those_of_the_signature() -> None:
    def handler(text: str) -> str: ...  # type: ignore[empty-body]

    signature = Signature.of(handler, limits=lambda: PayloadLimits(Limits(20), Limits(30)))
    assert signature.encode_args("x" * 9)
    assert isinstance(refusal(signature.encode_args, "x" * 10), PayloadTooLargeError)
    assert signature.encode_result("x" * 28)
    assert refusal(signature.encode_result, "x" * 29).field == "result"


def test_what_was_stored_stays_readable_when_the_size_limit_is_lowered() -> None:
    def handler(x: Any): ...

    deep: Any = []
    for _ in range(99):
        deep = [deep]
    wide = Limits(max_bytes=10_000, max_depth=128)
    signature = Signature.of(handler, limits=lambda: PayloadLimits(wide))
    lowered = Signature.of(handler, limits=lambda: PayloadLimits(Limits(max_bytes=10, max_depth=128)))
    assert lowered.decode_args(signature.encode_args(deep)) == {"x": deep}


# -- run --


def test_rich_arguments_come_back_typed() -> None:
    def handler(
        order: Order,
        point: Point,
        at: datetime,
        amount: Decimal,
        ids: set[UUID],
        by_number: dict[int, Optional[Point]],  # noqa: UP045  both spellings are in use
        pair: tuple[int, str],
        positive: Annotated[int, Field(gt=0)],
        data: bytes,
        blob: Base64Bytes,
        anything: Any,
        bare,
        _hidden: int = 3,
    ) -> None: ...

    signature = Signature.of(handler)
    given: dict[str, Any] = {
        "order": Order(id=UUID_7, lines=[Line(price=Decimal("1.10"), SKU="k")]),
        "point": Point(1.5),
        "at": NOON,
        "amount": Decimal("2.50"),
        "ids": {UUID_7, UUID(int=1), UUID(int=2)},
        "by_number": {1: Point(2.0), 2: None},
        "pair": (1, "a"),
        "positive": 5,
        "data": b"text",
        "anything": {"deep": [1, None]},
        "bare": "x",
        "_hidden": 4,
    }
    text = signature.encode_args(**given, blob=b"AP8=")
    assert signature.decode_args(text) == given | {"blob": b"\x00\xff"}
    assert signature.decode_args(text.encode()) == given | {"blob": b"\x00\xff"}
    assert text == signature.encode_args(**given, blob=b"AP8="), "sets have a stable order"


def test_models_given_as_dicts_are_stored_complete() -> None:
    """A default inside a model is stored: it may change, or be a fresh UUID, before the job runs."""
    text = WELCOME.encode_args(1, {"id": UUID_7, "lines": [{"price": "1"}]})
    assert json.loads(text)["order"] == {
        "id": str(UUID_7),
        "lines": [{"price": "1", "count": 1, "sku": "none"}],
        "made_at": "2026-01-31T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"user_id":"x"}', "args.user_id"),
        ("{}", "args.user_id"),
        ('{"user_id":1,"gone":2}', "args.gone"),
        ('{"user_id":1,"order":{"id":"x","lines":[]}}', "args.order.id"),
        ("[]", "args"),
        ("null", "args"),
        ("{", "args"),
        ("[" * 10_000, "args"),
        (b'{"user_id":1,"note":"\xff"}', "args"),
    ],
)
def test_stored_arguments_that_no_longer_fit_are_refused(text: str | bytes, field: str) -> None:
    assert refusal(WELCOME.decode_args, text).field == field


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{}",
            "args.user_id is missing; give the parameter a default, then retry the job: app.handle(id).retry()",
        ),
        (
            '{"user_id":1,"nte":2}',
            "args.nte is not a parameter of the handler; it takes user_id, order, note; deploy",
        ),
        (
            '{"user_id":"x"}',
            "deploy a handler that takes what was stored, then retry the job: app.handle(id).retry()",
        ),
    ],
)
def test_they_are_not_said_to_be_impossible_to_store(text: str, told: str) -> None:
    """They were stored; whoever reads the job's error has a handler to change, not a value."""
    message = str(refusal(WELCOME.decode_args, text))
    assert f"{WELCOME.handler} do not fit the handler as it is now: " in message and told in message
    assert "cannot be read: args is not JSON" in str(refusal(WELCOME.decode_args, "{"))


# -- what annotations do not vouch for --


def test_secrets_are_refused_rather_than_masked() -> None:
    def handler(password: SecretStr) -> None: ...

    error = refusal(Signature.of(handler).encode_args, "hunter2")
    assert error.field == "args.password"
    assert "hunter2" not in str(error)


def test_a_secret_with_its_own_serializer_is_stored() -> None:
    def handler(
        password: Annotated[SecretStr, PlainSerializer(lambda s: s.get_secret_value(), when_used="json")],
    ) -> None: ...

    signature = Signature.of(handler)
    assert signature.decode_args(signature.encode_args("hunter2")) == {"password": SecretStr("hunter2")}


def test_bytes_need_an_annotation_and_utf8() -> None:
    def handler(data: bytes = b"", anything: Any = None, items: list[bytes] = []) -> None: ...  # noqa: B006

    signature = Signature.of(handler)
    assert signature.encode_args(b"x", items=[b"y"]) == '{"data":"x","items":["y"]}'
    assert refusal(signature.encode_args, b"\xff").field == "args.data"
    assert refusal(signature.encode_args, anything=b"x").field == "args.anything"

    def fetch() -> list[bytes]: ...  # type: ignore[empty-body]

    assert Signature.of(fetch).encode_result([b"x"]) == '["x"]'


def test_what_a_serializer_adds_is_checked_too() -> None:
    def handler(
        x: Annotated[int, PlainSerializer(lambda x: "a\0")] = 1,
        y: Annotated[int, PlainSerializer(lambda y: y * 1e16)] = 1,
        z: float = 1.0,
        deep: Annotated[
            int, PlainSerializer(lambda d: functools.reduce(lambda a, _: [a], range(99), []))
        ] = 1,
    ) -> None: ...

    signature = Signature.of(handler)
    assert refusal(signature.encode_args, x=1).field == "args.x"
    assert signature.encode_args(y=1) == '{"y":10000000000000000.0}'
    assert refusal(signature.encode_args, z=float("inf")).field == "args.z"
    assert isinstance(refusal(signature.encode_args, deep=1), PayloadTooLargeError)


def test_generators_in_untyped_parameters_are_refused() -> None:
    def handler(items: Any) -> None: ...

    assert refusal(Signature.of(handler).encode_args, (n for n in range(3))).field == "args.items"


def test_a_model_changed_to_hold_the_wrong_type_is_refused_when_it_is_read() -> None:
    order = Order(id=UUID_7, lines=[])
    order.id = [1, 2]  # type: ignore[assignment]
    assert refusal(WELCOME.decode_args, WELCOME.encode_args(1, order)).field == "args.order.id"


# -- results --


def test_results_are_validated_and_written_by_the_return_annotation() -> None:
    def handler() -> Order: ...  # type: ignore[empty-body]

    signature = Signature.of(handler)
    order = Order(id=UUID_7, lines=[Line(price=Decimal(1), SKU="k")])
    assert Order.model_validate_json(signature.encode_result(order), by_name=True) == order
    assert signature.encode_result(order.model_dump(round_trip=True)) == signature.encode_result(order)
    assert refusal(signature.encode_result, {"id": UUID_7}).field == "result.lines"
    assert refusal(signature.encode_result, None).field == "result"


@pytest.mark.parametrize("annotation", [Any, object, NoReturn, Mailer])
def test_results_without_a_usable_annotation_go_by_what_they_are(annotation: Any) -> None:
    def handler(): ...

    handler.__annotations__["return"] = annotation
    signature = Signature.of(handler)
    assert signature.encode_result({"p": Point(1.0)}) == '{"p":{"x":1.0,"y":0.0}}'
    assert refusal(signature.encode_result, {"p": b""}).field == "result.p"
    assert refusal(signature.encode_result, {"m": [Mailer()]}).field == "result.m[0]"


def test_a_result_of_none_is_stored() -> None:
    def handler() -> None: ...

    assert Signature.of(handler).encode_result(None) == "null"
    assert refusal(Signature.of(handler).encode_result, 1).field == "result"
