"""Redaction of random secrets and hostile texts: nothing of a value survives, twice is as once, and the time grows with the length."""

from __future__ import annotations

import string
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observe.embedding import quoted, survivors
from tests.observe.redaction_cases import BARE, QUOTED, SHOWN
from windlass.observe.redaction import Secrets
from windlass.urls import without_secrets

CANARY = "c4n4ry-s3cret"
hide = Secrets([CANARY]).hide

# No asterisk: a run such as '***"' is in every hidden text.
bare = st.text(string.ascii_letters + string.digits + "!$+%~._^|", min_size=8, max_size=40)
unquoted = st.text(string.ascii_letters + string.digits + " !$+,;:=()[]{}<>/?&@#\n", min_size=4, max_size=40)
anything = st.text(
    st.characters(exclude_characters="*", exclude_categories=["Cs"]) | st.sampled_from("'\"\\ \n{}[](),:="),
    min_size=4,
    max_size=40,
)


@given(st.sampled_from(BARE), bare)
def test_nothing_survives_of_a_value_without_quotes(template: str, secret: str) -> None:
    assert survivors(secret, template.format(""), hide(template.format(secret))) == []


@given(st.sampled_from(QUOTED), st.data())
def test_nothing_survives_of_a_value_in_quotes(form: tuple[str, str], data: st.DataObject) -> None:
    template, how = form
    secret = data.draw(unquoted if how == "raw" else anything)
    empty = template.format(quoted("", how))
    assert survivors(secret, empty, hide(template.format(quoted(secret, how)))) == []


PARTS = [
    "password", "token", "api", "key", "cookie", "Authorization", "dsn", "--", "=", ":", " ", "=>", "->", '"', "'", "\\", '\\"', "(", "[", "{", ")",
    "]", "}", ",", ";", "&", "?", "\n", "@", "://", "http://", "x://", "abc", "a b", "eyJabcdefghijk.x.y", "Bearer ", "abcdefghijkl", "<", ">",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "|\n x", "- x\n", "12", "count", "max", "basic ", "***", CANARY, "b", "\r", "'''",
    "connection string", "session id", "name", "value", "<token>", "</token>", "&lt;pw&gt;", "name: pw", "value: ", '"name": "token"', '"value": "',
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=16).map("".join))
def test_twice_is_as_once(text: str) -> None:
    once = hide(text)
    assert hide(once) == once


@pytest.mark.parametrize("template", [*BARE, *(template for template, _ in QUOTED), *SHOWN])
def test_twice_is_as_once_for_each_form(template: str) -> None:
    once = hide(template.replace("{}", "'a b'"))
    assert hide(once) == once


HOSTILE = [
    "password", "token=", "password='", "a", "a-", "aB", "a=", "eyJ", "://:@", "cookie:", "://", ":", "@", "http://", "http://a:", "http://a@",
    "(", "[", "token=[", "token=(x", "token=f(", '("token","', "('token',\"a", '("token",[(', "\\", '\\"', 'token=\\"', '"token\\":\\"',
    "--token ", "cookie: 'x", "'cookie: ", '"Cookie: a\n', "bearer ", "-----BEGIN PRIVATE KEY-----", "token: - \n", "token: |\n ", "token=<",
    "token=a,b", "token=a;b:", 'token=a"', "token=a)", "api key: ", " \n", "token \n", "x://a:b,", "'dsn=", '{"token":{"', "->", "aTOKEN=",
    "password = ", "token='a'b", "<token>", "<token>x</", "<token", "<token x", "&lt;token&gt;", "</token>", "<a></a>", "name=token ", "name: pw value", "value='",
    "value: x ", "value=(name=pw", "name='token' value=", "value=x name=token ", "\\u003ctoken", "<token &",
]  # fmt: skip
ENDS = ["=", "]x" * 1_000, '" z', "' z,", " @"]


@pytest.mark.parametrize(
    "end", [ENDS[0], *(pytest.param(end, marks=pytest.mark.long) for end in ENDS[1:])], ids=range(len(ENDS))
)
@pytest.mark.parametrize("hidden", [hide, without_secrets], ids=["hide", "without_secrets"])
def test_hostile_texts_take_linear_time(hidden: Callable[[str], str], end: str) -> None:
    """One text of 64 kB takes about as long as eight texts of 8 kB; where the time grew with the square of the length, it would be eight
    times as long. The best of several rounds counts, so a busy machine does not matter."""
    slow = [piece for piece in HOSTILE if not _is_linear(hidden, piece, end)]
    assert slow == []


def _is_linear(hidden: Callable[[str], str], piece: str, end: str) -> bool:
    short, long = (piece * (length // len(piece)) + end for length in (8_000, 64_000))
    for _ in range(5):
        one = _seconds(hidden, long, 1)
        if one < 1.0 and one < 4 * _seconds(hidden, short, 8) + 0.005:
            return True
    return False


def _seconds(hidden: Callable[[str], str], text: str, times: int) -> float:
    began = time.thread_time()
    for _ in range(times):
        hidden(text)
    return time.thread_time() - began
