"""Which callables can be handlers: methods, partials, decorated functions; and which are refused."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import (
    BaseModel,
    Field,
)

from tests.arguments.handlers import Mailer, is_mailer, refusal, welcome
from windlass.arguments.signature import Signature
from windlass.errors import ConfigError

if TYPE_CHECKING:
    from fractions import Fraction


# -- what can be a handler --


class Service:
    def run(self, order_id: int) -> int:
        return order_id

    def __call__(self, name: str) -> None: ...


def traced(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def test_methods_callables_partials_and_decorated_functions() -> None:
    assert Signature.of(Service().run).encode_args("1") == '{"order_id":1}'
    assert Signature.of(Service()).encode_args("n") == '{"name":"n"}'
    assert Signature.of(traced(Service().run)).encode_args("1") == '{"order_id":1}'
    assert Signature.of(functools.partial(welcome, mailer=Mailer()), injected=is_mailer).encode_args("1") == (
        '{"user_id":1}'
    )


def test_parameter_names_are_free() -> None:
    def handler(
        self: int, json: int, copy: int, schema: int, limits: int, what: int, model_config: int
    ) -> None: ...

    names = ("self", "json", "copy", "schema", "limits", "what", "model_config")
    signature = Signature.of(handler)
    text = signature.encode_args(**dict.fromkeys(names, 1))
    assert signature.decode_args(text) == dict.fromkeys(names, 1)


def test_handlers_without_parameters() -> None:
    def handler() -> None: ...

    signature = Signature.of(handler)
    assert signature.encode_args() == "{}"
    assert signature.decode_args("{}") == {}
    assert "no arguments" in str(refusal(signature.bind, x=1))


def many(first: int, *rest: int) -> None: ...


def keywords(**options: int) -> None: ...


def unnamed(first: int, /) -> None: ...


def field_default(count: int = Field(3, gt=1)) -> None: ...


def unimported(x: Fraction) -> None: ...


def undefined(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def not_data(x: Mailer) -> None: ...


def not_data_inside(x: int, y: list[Mailer]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (many, "*rest"),
        (keywords, "**options"),
        (unnamed, "by name"),
        (field_default, "Annotated[..., Field(...)]"),
        (unimported, "Fraction"),
        (undefined, "Nowhere"),
        (not_data, "parameter x"),
        (not_data_inside, "parameter y"),
    ],
)
def test_handlers_whose_arguments_cannot_be_stored_are_refused_at_definition(handler: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Signature.of(handler)
    assert text in str(caught.value)
    assert handler.__name__ in str(caught.value)


def test_string_annotations_of_local_classes_resolve_with_localns() -> None:
    class Local(BaseModel):
        x: int

    def handler(value: Local) -> None: ...

    with pytest.raises(ConfigError, match="Local"):
        Signature.of(handler)
    signature = Signature.of(handler, localns=locals())
    assert signature.decode_args(signature.encode_args({"x": "1"})) == {"value": Local(x=1)}


def test_defaults_are_stored_where_somebody_reads_them() -> None:
    sentinel = object()

    def work(a: int, b: str = "usual", c: int = 3, bad: int = "none", odd: Any = sentinel) -> None: ...  # type: ignore[assignment]

    signature = Signature.of(work)
    assert signature.encode_args(1) == '{"a":1}'
    signature.store_defaults(["b", "bad", "odd", "a", "unknown"])
    assert json.loads(signature.encode_args(1)) == {"a": 1, "b": "usual"}
    assert json.loads(signature.encode_args(1, "other", c=4)) == {"a": 1, "b": "other", "c": 4}
