"""Stored JSON is read back or refused by the name of its field, and hashed alike if it is alike."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.arguments.encoding import body_hash, decode, encode
from windlass.arguments.limits import Limits
from windlass.errors import PayloadError, PayloadTooLargeError


@given(st.text() | st.binary())
@settings(max_examples=150, deadline=None)
def test_decoding_anything_gives_a_value_or_a_payload_error(text: str | bytes) -> None:
    try:
        value = decode(text, what="args")
    except PayloadError:
        return
    assert decode(encode(value, what="args"), what="args") == value


# -- decode --


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        ('{"a":', "args", "not JSON"),
        ("", "args", "not JSON"),
        ("[1,]", "args", "not JSON"),
        (b'"\xff"', "args", "not JSON"),
        ('"\\ud800"', "args", "not JSON"),
        ('"\ud800"', "args", "not JSON"),
        ("1" * 5000, "args", "not JSON"),
        ('{"a":[NaN]}', "args.a[0]", "NaN"),
        ('{"a":-1e999}', "args.a", "infinite"),
        ('{"a":"\\u0000"}', "args.a", "NUL"),
        ('{"\\u0000":1}', "args['\\x00']", "NUL"),
        ("1" * 1001, "args", "1,000 digits"),
        ('{"a":1,"a":1}', "args.a", "twice"),
        ('{"o":[{"a" :1,"b":": ","a"\n:2}]}', "args.o[0].a", "twice"),
        (b'{"a":1,"\\u0061":2}', "args.a", "twice"),
    ],
)
def test_broken_json_is_refused_by_field(text: str | bytes, field: str, problem: str) -> None:
    with pytest.raises(PayloadError) as caught:
        decode(text, what="args")
    assert caught.value.field == field
    assert problem in caught.value.problem


@pytest.mark.parametrize("levels", [129, 150, 10_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json_is_refused_before_it_can_hurt(levels: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    with pytest.raises(PayloadTooLargeError):
        decode(opening * levels + "1" + closing * levels, what="args")


def test_decode_checks_the_size_only_when_asked() -> None:
    text = json.dumps("ü" * 20, ensure_ascii=False)
    assert decode(text, what="args")
    with pytest.raises(PayloadTooLargeError):
        decode(text, what="args", limits=Limits(max_bytes=41))
    assert decode(text, what="args", limits=Limits(max_bytes=42))


def test_decode_of_something_else_is_refused() -> None:
    with pytest.raises(PayloadError, match="is dict, not JSON text"):
        decode({}, what="args")  # type: ignore[arg-type]


def test_colons_in_strings_are_no_duplicates() -> None:
    text = '{"url":"http://x :\\":","at": "12:30","o":{"url":1}}'
    assert decode(text, what="args") == json.loads(text)


# -- body_hash --


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[{"c":1,"d":2}]}', '{"b": [{"d": 2, "c": 1}], "a": 1}'),
        ('{"a":1e+22}', '{"a": 10000000000000000000000}'),
        ('{"a":1e+300}', '{"a": 1' + "0" * 300 + "}"),
        ('{"a":-0.0,"b":1.0}', '{"a": 0.0, "b": 1}'),
        ('{"a":1e-07}', '{"a": 0.0000001}'),
        ('{"a":"ü"}', '{"a": "\\u00fc"}'),
    ],
)
def test_hash_ignores_what_jsonb_rewrites(one: str, other: str) -> None:
    assert body_hash("k", one) == body_hash("k", other.encode())


def test_hash_tells_bodies_and_kinds_apart() -> None:
    bodies = [
        "{}",
        '{"a":1}',
        '{"a":"1"}',
        '{"a":2}',
        '{"a":[1,2]}',
        '{"a":[2,1]}',
        f'{{"a":{2**63}}}',
        f'{{"a":{2**63 + 1}}}',
    ]
    hashes = {body_hash(kind, body) for kind in ("k", "k2") for body in bodies}
    assert len(hashes) == 16
    assert all(len(text) == 64 for text in hashes)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1e999999999", "NaN", "1" * 5000])
def test_hash_of_broken_json_is_a_payload_error(text: str) -> None:
    with pytest.raises(PayloadError):
        body_hash("k", text)


@pytest.mark.parametrize(
    ("value", "told"),
    [(object(), "is an object, which"), (ZeroDivisionError(), "is a ZeroDivisionError, which")],
)
def test_a_type_is_named_with_its_article(value: object, told: str) -> None:
    with pytest.raises(PayloadError, match=told):
        encode(value, what="result")
