"""Kept tokens: only the right key, job and tenant open them."""

from __future__ import annotations

import base64
import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError, SealError
from windlass.model.principal import Sealed
from windlass.principals.sealed_tokens import TokenKeys

ONE, TWO = bytes(range(32)), bytes(range(32, 64))
KEYS = TokenKeys({"one": ONE})
TOKEN = "canary-token-of-a-user"


def code(keys: TokenKeys, sealed: Sealed, job_id: str = "job", tenant: str | None = "acme") -> str:
    with pytest.raises(SealError) as caught:
        keys.open(sealed, job_id=job_id, tenant=tenant)
    assert TOKEN not in f"{caught.value} {caught.value.__cause__!r} {caught.value.__context__!r}"
    return caught.value.code


@given(st.text(min_size=1, max_size=300), st.none() | st.text(max_size=20))
def test_what_is_sealed_is_opened(token: str, tenant: str | None) -> None:
    try:
        token.encode()
    except UnicodeEncodeError:
        return
    sealed = KEYS.seal(token, job_id="job", tenant=tenant)
    assert KEYS.open(sealed, job_id="job", tenant=tenant) == token
    assert sealed.key_id == "one"
    assert len(token) < 8 or token.encode() not in base64.b64decode(sealed.text)


def test_the_same_token_is_never_sealed_alike() -> None:
    assert len({KEYS.seal(TOKEN, job_id="job", tenant=None).text for _ in range(100)}) == 100


def test_a_sealed_token_moved_to_another_job_or_tenant_does_not_open() -> None:
    sealed = KEYS.seal(TOKEN, job_id="job", tenant="acme")
    assert (
        code(KEYS, sealed, "other")
        == code(KEYS, sealed, tenant="other")
        == code(KEYS, sealed, tenant=None)
        == "seal_broken"
    )
    assert code(KEYS, KEYS.seal(TOKEN, job_id="job", tenant=None), tenant="") == "seal_broken"


def test_a_changed_byte_is_noticed() -> None:
    sealed = KEYS.seal(TOKEN, job_id="job", tenant="acme")
    raw = base64.b64decode(sealed.text)
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        assert code(KEYS, Sealed("one", base64.b64encode(changed).decode())) == "seal_broken"
    for text in ("", "AAAA", "no base64!", sealed.text[:-8]):
        assert code(KEYS, Sealed("one", text)) == "seal_broken"


def test_a_rotated_key_still_opens_and_the_new_one_seals() -> None:
    old = KEYS.seal(TOKEN, job_id="job", tenant="acme")
    both = TokenKeys({"two": TWO, "one": ONE})
    assert both.open(old, job_id="job", tenant="acme") == TOKEN
    new = both.seal(TOKEN, job_id="job", tenant="acme")
    assert new.key_id == "two" and both.open(new, job_id="job", tenant="acme") == TOKEN
    only_new = TokenKeys({"two": TWO})
    assert only_new.open(new, job_id="job", tenant="acme") == TOKEN
    assert code(only_new, old) == "seal_key_missing"
    assert code(TokenKeys({"one": TWO}), old) == "seal_broken", "another key under the old id"
    assert code(both, Sealed("two", old.text)) == "seal_broken", "the id is part of what is sealed"


def test_the_error_of_a_lost_key_says_which_one_and_what_to_do() -> None:
    sealed = KEYS.seal(TOKEN, job_id="job", tenant="acme")
    with pytest.raises(
        SealError,
        match=r"job job was sealed with the key 'one', which principal\.keys does not have; put it back",
    ):
        TokenKeys({"two": TWO}).open(sealed, job_id="job", tenant="acme")


def test_keys_come_from_a_setting() -> None:
    first, second = TokenKeys.new(), TokenKeys.new()
    assert first != second
    for given_ in (
        f"new:{first},old:{second}",
        f" new:{first} , old:{second} ,",
        {"new": first, "old": second},
    ):
        assert repr(TokenKeys.parse(given_)) == "<TokenKeys new, old>"
    sealed = TokenKeys.parse(f"a:{first}").seal(TOKEN, job_id="job", tenant=None)
    assert TokenKeys.parse(f"b:{second},a:{first}").open(sealed, job_id="job", tenant=None) == TOKEN


SHORT = base64.b64encode(bytes(16)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "key",
        ":",
        f"a:{SHORT}",
        "a:!!!",
        f"a b:{TokenKeys.new()}",
        f"a:{TokenKeys.new()},a:{TokenKeys.new()}",
        7,
        None,
    ],
    ids=range(10),
)
def test_bad_keys_are_refused_and_not_shown(text: object) -> None:
    with pytest.raises((ValueError, ConfigError)) as caught:
        TokenKeys.parse(text)  # type: ignore[arg-type]
    assert SHORT not in str(caught.value)


def test_keys_are_never_shown_or_copied() -> None:
    shown = f"{KEYS} {KEYS!r} {vars(KEYS)}"
    assert repr(ONE) not in shown and base64.b64encode(ONE).decode() not in shown
    for copier in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            copier(KEYS)
    for bad in ({}, {"a": b"short"}, {"a": "text" * 8}, {"../a": ONE}):
        with pytest.raises(ConfigError) as caught:
            TokenKeys(bad)
        assert "short" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "x" * 20_000])
def test_a_token_has_a_size(token: str) -> None:
    with pytest.raises(ConfigError, match="16,384 bytes"):
        KEYS.seal(token, job_id="job", tenant=None)
