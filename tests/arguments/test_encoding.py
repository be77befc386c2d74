"""What can be stored is stored unchanged; what cannot is refused by the name of its field."""

from __future__ import annotations

import dataclasses
import enum
import json
import threading
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field, field_serializer
from pydantic import dataclasses as pydantic_dataclasses
from pydantic_core import to_jsonable_python

from windlass.arguments.encoding import body_hash, decode, encode
from windlass.arguments.limits import RESULT_LIMITS, Limits
from windlass.errors import ConfigError, PayloadError, PayloadTooLargeError

NAN = float("nan")


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Size(enum.IntEnum):
    LARGE = 3


class Line(BaseModel):
    price: float
    note: Any = None
    sku: str = Field("none", alias="SKU")

    @computed_field
    def double(self) -> float:
        return self.price * 2


class Order(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: UUID
    lines: list[Line]


@dataclasses.dataclass
class Point:
    x: float
    tag: Any = None


@dataclasses.dataclass(slots=True)
class SlottedPoint:
    x: Any


@pydantic_dataclasses.dataclass
class CheckedPoint:
    x: Any


class Login(BaseModel):
    password: SecretStr


class RevealedLogin(Login):
    @field_serializer("password", when_used="json")
    def reveal(self, password: SecretStr) -> str:
        return password.get_secret_value()


class HiddenLogin(BaseModel):
    password: SecretStr = Field(exclude=True)
    handle: Any = Field(iter([]), exclude=True)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text for you")

    __repr__ = __str__


class Failing(BaseModel):
    x: int = 1

    @field_serializer("x")
    def write_x(self, x: int) -> int:
        raise UnprintableError


class Deepening(BaseModel):
    x: int = 1

    @field_serializer("x")
    def write_x(self, x: int) -> Any:
        return nested(100)


class HostileDict(dict[str, Any]):
    def __iter__(self) -> Any:
        raise UnprintableError


UUID_7 = UUID("01890000-0000-7000-8000-000000000007")


def nested(levels: int, kind: type = list) -> Any:
    value: Any = kind()
    for _ in range(levels - 1):
        value = [value] if kind is list else {"a": value}
    return value


def refusal(value: Any, **options: Any) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        encode(value, what="args", **options)
    assert caught.value.what == "args"
    str(caught.value).encode()
    assert "\0" not in str(caught.value)
    return caught.value


# -- what is stored --


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-0.0, "-0.0"),
        (2**70, "1180591620717411303424"),
        (1e-07, "1e-7"),
        (9999999999999998.0, "9999999999999998.0"),
        ([1e16, "1e+22", '"1e+22'], '[10000000000000000.0,"1e+22","\\"1e+22"]'),
        ({"1e+22": Point(-5.861356761997038e16)}, '{"1e+22":{"x":-58613567619970380.0,"tag":null}}'),
        (1e300, "1" + "0" * 300 + ".0"),
        ("ü 😀 \\u0000 NaN", '"ü 😀 \\\\u0000 NaN"'),
        ({"a": [1, 2.5, "x", None]}, '{"a":[1,2.5,"x",null]}'),
        ((1, (2,)), "[1,[2]]"),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ({1: "a", Colour.RED: "b", date(2026, 1, 31): "c"}, '{"1":"a","red":"b","2026-01-31":"c"}'),
        ({UUID_7: 1}, '{"01890000-0000-7000-8000-000000000007":1}'),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), '"2026-01-31T12:00:00Z"'),
        (timedelta(days=1.5), '"P1DT12H"'),
        (UUID_7, '"01890000-0000-7000-8000-000000000007"'),
        (Decimal("1.10"), '"1.10"'),
        (Colour.RED, '"red"'),
        (Colour.PAIR, "[1,2]"),
        (Size.LARGE, "3"),
        (Path("/tmp/x"), '"/tmp/x"'),
        (Point(1.5, ["a"]), '{"x":1.5,"tag":["a"]}'),
        (SlottedPoint(1), '{"x":1}'),
        (CheckedPoint(1), '{"x":1}'),
        (RootModel[list[int]]([1, 2]), "[1,2]"),
        (RevealedLogin(password=SecretStr("hunter2")), '{"password":"hunter2"}'),
        (HiddenLogin(password=SecretStr("hunter2")), "{}"),
        (Login(password=SecretStr("")), '{"password":""}'),
    ],
)
def test_values_and_their_text(value: Any, text: str) -> None:
    assert encode(value, what="args") == text


def test_models_are_written_by_field_name_without_computed_fields() -> None:
    """So that the model can be built again from what was stored."""
    order = Order(id=UUID_7, lines=[Line(price=2, SKU="k7")], source="web")
    assert json.loads(encode({"order": order}, what="args")) == {
        "order": {"id": str(UUID_7), "lines": [{"price": 2.0, "note": None, "sku": "k7"}], "source": "web"}
    }


def test_sets_become_sorted_lists_so_that_equal_arguments_are_equal_text() -> None:
    letters = list("abcdefghij")
    assert encode({"s": set(letters), "f": 1e16}, what="args") == (
        '{"s":["' + '","'.join(letters) + '"],"f":10000000000000000.0}'
    )
    value = {"tags": {"c", "b", "a"}, "point": Point(1.0, {3, 1, 2}), "deep": [{frozenset({"y", "x"})}]}
    assert encode(value, what="args") == (
        '{"tags":["a","b","c"],"point":{"x":1.0,"tag":[1,2,3]},"deep":[[["x","y"]]]}'
    )


# -- what is refused, and the name of the field --


@pytest.mark.parametrize(
    ("value", "field", "problem"),
    [
        ({"orders": [{}, {}, {}, {"price": NAN}]}, "args.orders[3].price", "NaN"),
        ({"a": float("inf")}, "args.a", "infinite"),
        ([float("-inf")], "args[0]", "infinite"),
        ({"d": Decimal("NaN")}, "args.d", "NaN"),
        ({"order": Order(id=UUID_7, lines=[Line(price=NAN)])}, "args.order.lines[0].price", "NaN"),
        (
            {"order": Order(id=UUID_7, lines=[Line(price=1, note=[NAN])])},
            "args.order.lines[0].note[0]",
            "NaN",
        ),
        ({"p": Point(NAN)}, "args.p.x", "NaN"),
        ({"a": ["x", "y\0z"]}, "args.a[1]", "NUL"),
        ({"a\0b": 1}, "args['a\\x00b']", "key that contains a NUL"),
        ({"a": {"b": "\ud800"}}, "args.a.b", "lone surrogate"),
        ({"\udfff": 1}, "args['\\udfff']", "key that contains a lone surrogate"),
        ({"order": Order(id=UUID_7, lines=[], extra="\0")}, "args.order.extra", "NUL"),
        ({"a": {1: "x", "1": "y"}}, "args.a['1']", "two keys"),
        ({"a": {(1, 2): 3}}, "args.a", "key of type tuple"),
        ({"a": {None: 3}}, "args.a", "key of type NoneType"),
        ({"a": {True: 3}}, "args.a", "key of type bool"),
        ({"a": 10**1000}, "args.a", "1,000 digits"),
        ({"a": -(10**5000)}, "args.a", "1,000 digits"),
        ({"a": b"x"}, "args.a", "is bytes"),
        ({"a": [bytearray(b"x")]}, "args.a[0]", "is bytearray"),
        ({"p": Point(1.0, b"\xff")}, "args.p.tag", "not UTF-8"),
        ({"login": Login(password=SecretStr("hunter2"))}, "args.login.password", "secret"),
        ([SecretStr("hunter2")], "args[0]", "secret"),
        ({"f": (n for n in range(3))}, "args.f", "generator"),
        ({"f": iter([1])}, "args.f", "list_iterator"),
        ({"f": lambda: 1}, "args.f", "function"),
        ({"a": [{"lock": threading.Lock()}]}, "args.a[0].lock", "lock"),
        ({"a": Point(1.0, object())}, "args.a.tag", "object"),
        ({"a": range(3)}, "args.a", "range"),
        ({"e": [UnprintableError()]}, "args.e[0]", "UnprintableError"),
        ({"m": [Failing()]}, "args.m[0]", "could not be turned into JSON"),
        ({"h": HostileDict(a=1)}, "args", "could not be read (UnprintableError)"),
        ({"strange key!": [NAN]}, "args['strange key!'][0]", "NaN"),
    ],
)
def test_refusals_name_the_field(value: Any, field: str, problem: str) -> None:
    error = refusal(value)
    assert error.field == field
    assert problem in error.problem
    assert error.cure
    assert "hunter2" not in str(error)
    assert error.__cause__ is None and error.__suppress_context__, "pydantic's own error may quote secrets"


def test_an_open_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("line\n")
    with (tmp_path / "a").open() as file:
        assert refusal({"file": file}).field == "args.file"
        assert file.read() == "line\n"


def test_the_root_of_the_path_is_the_first_word_of_what() -> None:
    with pytest.raises(PayloadError) as caught:
        encode({"a": NAN}, what="result of app.report")
    assert str(caught.value).startswith("result of app.report cannot be stored: result.a is NaN")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {"name": "x"}
    loop["children"] = [loop]
    error = refusal({"loop": loop})
    assert (error.field, error.problem) == ("args.loop.children[0]", "contains itself")


def test_the_same_value_twice_is_not_a_cycle() -> None:
    shared = Point(1.0)
    assert encode([shared, shared], what="args") == '[{"x":1.0,"tag":null},{"x":1.0,"tag":null}]'


@pytest.mark.parametrize("kind", [list, dict])
def test_depth_is_limited_and_never_breaks_the_interpreter(kind: type) -> None:
    assert decode(encode(nested(64, kind), what="args"), what="args") == nested(64, kind)
    for levels in (65, 10_000):
        error = refusal(nested(levels, kind))
        assert isinstance(error, PayloadTooLargeError)
        assert "64 levels" in error.problem
        assert len(error.field) <= 200


def test_depth_counts_models_and_what_serializers_add() -> None:
    assert isinstance(refusal([Deepening()]), PayloadTooLargeError)
    assert isinstance(refusal({"p": Point(1.0, nested(63))}), PayloadTooLargeError)
    assert encode({"p": Point(1.0, nested(62))}, what="args")


def test_size_is_limited_and_the_large_field_named() -> None:
    error = refusal({"id": 7, "rows": [{"text": "x" * 2_000_000}]})
    assert isinstance(error, PayloadTooLargeError)
    assert error.field == "args.rows[0].text"
    assert "2,000,0" in error.problem and "262,144" in error.problem
    assert refusal({"rows": list(range(100_000))}).field == "args.rows"
    assert refusal({"p": Point(1.0, "x" * 300_000)}).field == "args.p.tag"
    assert encode("x" * 300_000, what="result", limits=RESULT_LIMITS)


def test_the_limit_counts_bytes_exactly() -> None:
    assert encode("ü" * 9, what="args", limits=Limits(max_bytes=20))
    assert isinstance(refusal("ü" * 10, limits=Limits(max_bytes=20)), PayloadTooLargeError)


def test_fifty_megabytes_are_refused() -> None:
    assert isinstance(refusal({"blob": "x" * 50_000_000}, limits=RESULT_LIMITS), PayloadTooLargeError)


@pytest.mark.parametrize(
    "options", [{"max_bytes": 0}, {"max_bytes": 2**40}, {"max_depth": 0}, {"max_depth": 500}]
)
def test_limits_that_cannot_work_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Limits(**options)


# -- round trips --

integers = st.integers() | st.integers(min_value=-(10**999), max_value=10**999)
any_text = st.text(st.characters() | st.characters(categories=["Cs"]) | st.just("\0"), max_size=8)
safe_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def json_values(text: st.SearchStrategy[str], floats: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | integers | floats | text
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=12,
    )


@given(json_values(safe_text, st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=150, deadline=None)
def test_every_json_value_comes_back_equal(value: Any) -> None:
    text = encode(value, what="args")
    assert decode(text, what="args") == value
    assert decode(text.encode(), what="args") == value
    assert body_hash("k", text) == body_hash("k", json.dumps(value, indent=1))


@given(json_values(any_text, st.floats()))
@settings(max_examples=150, deadline=None)
def test_any_value_comes_back_equal_or_is_refused(value: Any) -> None:
    try:
        text = encode(value, what="args")
    except PayloadError as error:
        assert error.field.startswith("args")
        str(error).encode()
        return
    assert decode(text, what="args") == value
    assert "\\u0000" not in text.replace("\\\\", "")


@given(
    st.dictionaries(
        st.text("ab", max_size=2),
        st.datetimes(timezones=st.just(UTC)) | st.uuids() | st.decimals(allow_nan=False, allow_infinity=False)
        | st.dates() | st.timedeltas() | st.builds(Point, st.floats(-9, 9), safe_text) | st.lists(st.dates(), max_size=2),
        max_size=4,
    )
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_rich_values_come_back_as_their_json_form(value: dict[str, Any]) -> None:
    assert decode(encode(value, what="args"), what="args") == to_jsonable_python(value)
