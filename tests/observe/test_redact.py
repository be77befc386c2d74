"""``redact``: JSON-like values without secrets, and the application's own function behind it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.observe.lines import app as log
from tests.observe.lines import written
from windlass.errors import ConfigError
from windlass.observe import logs, redact
from windlass.observe.redaction import Secrets
from windlass.observe.safe_text import plain


@dataclass
class Login:
    user: str
    password: str


def test_values_are_hidden_by_name_and_texts_are_cleaned() -> None:
    given = {
        "user": "bob",
        "password": "x",
        "tokens": ["a", "b"],
        "auth": {"user": "bob"},
        "token_count": 7,
        "max_tokens": 9,
        "deep": [{"apiKey": 1, "ok": None}, ("password", "x"), ["api_key", {"a": 1}], ["user", "bob"]],
        "note": 'sent {"token": "abc"} to https://tok@example.org/?sig=x',
    }
    before = json.dumps(given)
    assert redact(given) == {
        "user": "bob",
        "password": "***",
        "tokens": "***",
        "auth": "***",
        "token_count": 7,
        "max_tokens": 9,
        "deep": [{"apiKey": "***", "ok": None}, ["password", "***"], ["api_key", "***"], ["user", "bob"]],
        "note": 'sent {"token": "***"} to https://***@example.org/?sig=***',
    }
    assert json.dumps(given) == before


def test_a_value_is_hidden_by_the_name_in_the_field_beside_it() -> None:
    given = {
        "env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "HOME", "value": "/root"}],
        "headers": [{"Value": ["a"], "Key": "Authorization"}, {"key": "Accept", "value": "*/*"}],
        "counts": {"name": "token_count", "value": 7},
        "has_token": True,
    }
    expected = {
        "env": [{"name": "DB_PASSWORD", "value": "***"}, {"name": "HOME", "value": "/root"}],
        "headers": [{"Value": "***", "Key": "Authorization"}, {"key": "Accept", "value": "*/*"}],
        "counts": {"name": "token_count", "value": 7},
        "has_token": True,
    }
    assert redact(given) == expected
    assert plain(given, Secrets()) == expected, "in log lines"


def test_other_values_become_clean_text() -> None:
    assert redact(ValueError("password='a b' is wrong")) == "password='***' is wrong"
    assert redact([Login("bob", "a b"), b"token=abc", datetime(2026, 1, 1, tzinfo=UTC)]) == [
        "Login(user='bob', password='***')",
        "b'token=***'",
        "2026-01-01 00:00:00+00:00",
    ]
    assert redact({1: {2}, "note token=abc": 3}) == {"1": [2], "note token=***": "***"}


def test_circles_and_depth_have_an_end() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    assert redact(circle) == [1, "***"]
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert json.dumps(redact(deep)).count("[") == 100
    shared = [1]
    assert redact([shared, shared, shared]) == [[1], [1], [1]]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_twice_is_as_once(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once
    json.dumps(once)


def hide_ibans(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "IBAN" if key == "iban" else hide_ibans(item) for key, item in value.items()}
    return value.replace("DE02", "IBAN") if isinstance(value, str) else value


def test_an_app_applies_its_own_function_after_the_built_in() -> None:
    seen: list[Any] = []

    def own(value: Any) -> Any:
        seen.append(value)
        return hide_ibans(value)

    app = windlass.App("sqlite:///unused.db", redact=own)
    assert app.redact({"iban": "DE02", "password": "x"}) == {"iban": "IBAN", "password": "***"}
    assert seen == [{"iban": "DE02", "password": "***"}]
    assert windlass.App().redact({"iban": "DE02"}) == {"iban": "DE02"}


def test_an_app_of_the_builder_has_the_function_of_its_app(sqlite_path: str) -> None:
    app = windlass.App(redact=hide_ibans)
    with windlass.build({"database.url": f"sqlite:///{sqlite_path}"}, app=app) as background:
        assert background.app.redact("DE02") == "IBAN"


def test_a_function_that_raises_hides_everything() -> None:
    def own(value: Any) -> Any:
        raise ValueError(value)

    assert windlass.App(redact=own).redact({"iban": "DE02"}) == "***"


def test_pairs_are_hidden_in_the_fields_of_log_lines() -> None:
    with written() as lines:
        log.info("sent", extra={"headers": [("authorization", "x1y2"), ("accept", "text")]})
    assert lines.last["fields"] == {"headers": [["authorization", "***"], ["accept", "text"]]}


@pytest.mark.parametrize("style", ["json", "console"])
def test_log_lines_pass_the_own_function(style: str) -> None:
    with written(style) as lines:
        logs.redact_with(hide_ibans)
        try:
            raise ValueError("no account DE02, password=x1y2")
        except ValueError:
            log.exception("paid to %s", "DE02", extra={"iban": "anything", "note": "token=x1y2"})
    assert "paid to IBAN" in lines.text and "no account IBAN" in lines.text
    for hidden in ("anything", "x1y2"):
        assert hidden not in lines.text
    if style == "json":
        assert lines.last["fields"] == {"iban": "IBAN", "note": "token=***"}


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_function_that_fails_costs_no_line_and_shows_nothing(style: str) -> None:
    def own(value: Any) -> Any:
        raise ValueError(value)

    with written(style) as lines:
        logs.redact_with(own)
        log.error("paid to %s", "DE02", extra={"iban": "DE02"}, exc_info=ValueError("DE02"))
        logs.redact_with(len)
        log.error("paid to %s", "DE02", extra={"iban": "DE02"}, exc_info=ValueError("DE02"))
    assert len(lines.heads) == 2 and "DE02" not in lines.text


async def _async(value: Any) -> Any:
    return value


@pytest.mark.parametrize("wrong", ["hide", 7, _async])
def test_what_is_no_plain_function_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="redact"):
        windlass.App(redact=wrong)
