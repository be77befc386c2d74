"""The check of an Authorization header, without any web framework: who may, and what a refusal says."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.principals.tokens import OTHER_RSA, pem, signed, verifier
from windlass.errors import AuthenticationError, ConfigError, TokenError
from windlass.model.principal import Principal
from windlass.principals.bearer import BearerCheck

TOKEN = signed()
GOOD = f"Bearer {TOKEN}"


def refused(header: Any, **options: Any) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as caught:
        BearerCheck(verifier(), **options)(header)
    return caught.value


@pytest.mark.parametrize(
    "header", [GOOD, f"bearer {TOKEN}", f"BEARER  {TOKEN} ", [GOOD]], ids=["usual", "lower", "blanks", "list"]
)
def test_a_token_becomes_a_principal(header: Any) -> None:
    verified = BearerCheck(verifier(), roles=["reports.read"])(header)
    assert verified.principal is not None and verified.principal.subject == "u-7"
    assert verified.token == TOKEN and TOKEN not in repr(verified)


@pytest.mark.parametrize(
    "header",
    [
        None,
        [],
        "Basic dTpw",
        ["Basic dTpw=="],
        "Bearers x",
        'Digest username="Bearer, x", realm="a, Bearer b" , nonce=3,uri="/"',
        "AWS4-HMAC-SHA256 Credential=A/b/s3/aws4_request, SignedHeaders=host;range, Signature=fe5f",
    ],
)
def test_a_request_without_a_token(header: Any) -> None:
    error = refused(header)
    assert (error.status, error.code) == (401, "token_missing")
    assert error.headers == {"WWW-Authenticate": 'Bearer realm="api"'}, "no error code where nothing was sent"
    assert BearerCheck(verifier(), optional=True)(header) == (None, None)


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Bearer", "token_malformed"),
        ("Bearer ", "token_malformed"),
        (f"Bearer {TOKEN} more", "token_malformed"),
        (f"Bearer {TOKEN}\tx", "token_malformed"),
        (f"Bearer {TOKEN}, Bearer {TOKEN}", "token_malformed"),
        ([GOOD, GOOD], "token_malformed"),
        (["Basic dTpw", GOOD], "token_malformed"),
        ([GOOD, "Basic dTpw"], "token_malformed"),
        (["Basic dTpw", "Basic dTpw"], "token_malformed"),
        (["", GOOD], "token_malformed"),
        (["Digest a=1", "b=2"], "token_malformed"),
        (["Basic dTpw", ""], "token_malformed"),
        (f"Basic dTpw,{GOOD}", "token_malformed"),
        (f'Digest username="a", realm="b",{GOOD}', "token_malformed"),
        ("", "token_malformed"),
        (" ", "token_malformed"),
        ([""], "token_malformed"),
        (",", "token_malformed"),
        ("Basic", "token_malformed"),
        (TOKEN, "token_malformed"),
        ('"Basic" dTpw', "token_malformed"),
        (f"Bearer {signed(OTHER_RSA)}", "token_signature"),
        (f"Bearer {signed(exp=1)}", "token_expired"),
        (f"Bearer {signed(aud='others')}", "token_audience"),
        ("Bearer nonsense", "token_malformed"),
    ],
)
def test_a_wrong_token_is_refused_also_where_a_token_is_optional(
    header: Any, code: str, optional: bool
) -> None:
    error = refused(header, optional=optional, realm="reports")
    assert (error.status, error.code) == (401, code)
    assert error.headers["WWW-Authenticate"].startswith('Bearer realm="reports", error="invalid_token", ')
    assert error.body["code"] == code
    sent = (header if isinstance(header, str) else " ".join(header)).split()
    shown = f"{error} {error.headers} {error.body} {error.__cause__} {error.__context__}"
    assert not any(part in shown for part in sent if len(part) > len("nonsense"))


def test_a_missing_role_is_403() -> None:
    error = refused(GOOD, roles=["reports.read", "reports.delete"])
    assert (error.status, error.code) == (403, "not_allowed")
    assert error.message == "'u-7' lacks the role reports.delete"
    assert error.headers["WWW-Authenticate"] == (
        'Bearer realm="api", error="insufficient_scope", scope="reports.read reports.delete"'
    )
    odd = refused(GOOD, roles='say "hi"\r\nX: y')
    assert odd.headers["WWW-Authenticate"] == 'Bearer realm="api", error="insufficient_scope"'


def test_keys_that_are_away_are_no_fault_of_the_token() -> None:
    def away() -> dict[str, Any]:
        raise OSError("no route")

    with pytest.raises(AuthenticationError) as caught:
        BearerCheck(verifier(keys=away))(GOOD)
    assert (caught.value.status, caught.value.code) == (503, "token_keys_unavailable")
    assert caught.value.headers == {"Retry-After": "10"}


def test_a_verifier_that_names_the_token_does_not_pass_it_on() -> None:
    class Careless:
        def verify(self, token: str) -> Principal:
            raise TokenError("token_unknown", f'no "{token}"\r\nhere')

    with pytest.raises(AuthenticationError) as caught:
        BearerCheck(Careless())(GOOD)
    assert caught.value.message == 'the token is refused: no "***"\r\nhere'
    assert caught.value.headers["WWW-Authenticate"].endswith("error_description=\"no '***'''here\"")
    assert TOKEN not in f"{caught.value.__cause__}" and caught.value.__suppress_context__


def test_an_event_loop_waits_for_fetched_keys_in_a_thread() -> None:
    threads: list[threading.Thread] = []

    def fetch() -> dict[str, Any]:
        threads.append(threading.current_thread())
        raise OSError("no route")

    with pytest.raises(AuthenticationError):
        asyncio.run(BearerCheck(verifier(keys=fetch)).check_async(GOOD))
    assert threads and threads[0] is not threading.current_thread()
    assert not BearerCheck(verifier()).may_block, "given keys need no thread"


@pytest.mark.parametrize(
    ("options", "key"),
    [({"verifier": pem(OTHER_RSA)}, "verifier"), ({"realm": 'a"b'}, "realm"), ({"realm": ""}, "realm")],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BearerCheck(**{"verifier": verifier(), **options})
    assert caught.value.key == key
