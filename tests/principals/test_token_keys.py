"""The keys of a verifier: fetched, rotated, of every form, and never shown."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.counting import steps
from tests.principals.tokens import (
    AUDIENCE,
    EC,
    ISSUER,
    OTHER_RSA,
    RSA,
    SECRET,
    b64,
    claims,
    pem,
    signed,
    verifier,
)
from windlass.errors import ConfigError, TokenError


def test_one_key_needs_no_id_and_several_audiences_and_issuers_are_allowed() -> None:
    alone = verifier(
        keys={"rsa": pem(RSA)}, algorithms=["RS256"], issuer=[ISSUER, "b"], audience=["a", AUDIENCE]
    )
    assert alone.verify(signed(kid=None, aud=["x", AUDIENCE])).subject == "u-7"


def jwks(*keys: tuple[str, Any], **extra: Any) -> dict[str, Any]:
    made = []
    for kid, key in keys:
        maker: Any = (
            jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        )
        made.append({**json.loads(maker.to_jwk(key.public_key())), "kid": kid, **extra})
    return {"keys": made}


def test_a_jwks_gives_keys_by_id() -> None:
    odd = [{"kty": "ABC", "kid": "odd"}, {"kty": "oct", "k": b64(SECRET), "kid": "mac"}, "no key"]
    found = jwks(("rsa", RSA), ("ec", EC))
    found["keys"] += odd
    checked = verifier(keys=found, algorithms=["RS256", "ES256"])
    assert checked.verify(signed()).subject == checked.verify(signed(EC, "ES256", "ec")).subject == "u-7"
    with pytest.raises(TokenError) as caught:
        checked.verify(signed(SECRET, "HS256", "mac"))
    assert caught.value.code == "token_algorithm"
    for unusable in ({"use": "enc"}, {"alg": "PS256"}):
        with pytest.raises(ConfigError, match="at least one key"):
            verifier(keys=jwks(("rsa", RSA), **unusable), algorithms=["RS256"])


def test_keys_that_are_fetched_follow_a_rotation_without_a_flood() -> None:
    now, calls = [0.0], [0]
    published: list[Any] = [jwks(("one", RSA))]

    def fetch() -> Mapping[str, Any]:
        calls[0] += 1
        found: Mapping[str, Any] = published[0]
        if not found:
            raise OSError("the issuer is away")
        return found

    checked = verifier(keys=fetch, algorithms=["RS256"], monotonic=lambda: now[0])
    assert calls[0] == 0, "nothing is fetched before it is needed"
    assert checked.verify(signed(kid="one")).subject == "u-7" and calls[0] == 1
    published[0] = jwks(("two", OTHER_RSA))
    for _ in range(20):  # unknown ids cost one call every ten seconds, whoever sends them
        with pytest.raises(TokenError, match="not known here"):
            checked.verify(signed(OTHER_RSA, kid="two"))
    assert calls[0] == 1
    now[0] = 11.0
    assert checked.verify(signed(OTHER_RSA, kid="two")).subject == "u-7" and calls[0] == 2
    with pytest.raises(TokenError):
        checked.verify(signed(kid="one"))
    published[0] = {}
    now[0] = 400.0
    assert checked.verify(signed(OTHER_RSA, kid="two")).subject == "u-7", (
        "old keys serve while new ones cannot be had"
    )
    assert calls[0] == 3
    now[0] = 4000.0
    with pytest.raises(TokenError) as caught:
        checked.verify(signed(OTHER_RSA, kid="two"))
    assert caught.value.code == "token_keys_unavailable"


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": []},
        {"algorithms": ["none"]},
        {"algorithms": ["HS256", "None"]},
        {"algorithms": ["ES256K"]},
        {"keys": {}},
        {"keys": {"short": b"secret"}, "algorithms": ["HS256"]},
        {"keys": {"short": SECRET[:32]}, "algorithms": ["HS512"]},
        {"keys": {"public": pem(RSA)}, "algorithms": ["HS256"]},
        {"keys": {"secret": SECRET}, "algorithms": ["RS256"]},
        {"keys": {"weak": pem(rsa.generate_private_key(65537, 1024))}, "algorithms": ["RS256"]},
        {"keys": {"curve": pem(ec.generate_private_key(ec.SECP384R1()))}, "algorithms": ["ES256"]},
        {"keys": {"private": RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())}},
        {"keys": {"private": RSA}},
        {"keys": {"bad": b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"}},
        {"issuer": ""},
        {"issuer": []},
        {"issuer": None},
        {"audience": ""},
        {"audience": []},
        {"audience": None},
        {"required": "jti"},
        {"leeway": 61},
        {"leeway": -1},
        {"leeway": True},
    ],
)
def test_a_verifier_that_would_trust_too_much_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        verifier(**changes)
    assert "BEGIN" not in str(caught.value) and repr(SECRET)[2:20] not in str(caught.value)


def test_the_time_is_the_machines_unless_a_clock_is_given() -> None:
    checked = verifier(clock=None)
    soon = int(time.time())
    assert checked.verify(signed(iat=soon, exp=soon + 60)).expires_at == datetime.fromtimestamp(
        soon + 60, UTC
    )
    with pytest.raises(TokenError, match="it has expired"):
        checked.verify(signed(iat=soon - 600, exp=soon - 60))


def test_verifying_is_fast_enough_for_every_request() -> None:
    checked = verifier()
    token = signed(SECRET, "HS256", "hs")
    checked.verify(token)
    assert steps(lambda: checked.verify(token)) < 6_000


def test_no_error_that_is_answered_instead_of_keys_becomes_a_secret() -> None:
    """A text of 32 characters would do for HS256."""
    answer = {"message": "The identity provider is away for maintenance."}
    checked = verifier(keys=lambda: answer, algorithms=["RS256", "HS256"])
    token = jwt.encode(claims(), answer["message"], "HS256", {"kid": "message"})
    with pytest.raises(TokenError) as refused:
        checked.verify(token)
    assert refused.value.code == "token_keys_unavailable"


def test_no_traceback_quotes_a_secret_key() -> None:
    secret = b64(SECRET)
    with pytest.raises(ConfigError) as refused:
        verifier(keys={"k": {"kty": "oct", "k": secret, "alg": "HS999"}}, algorithms=["HS256"])
    assert secret not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("keys", ["https://example.org/jwks.json", 3, None, ["key"]])
def test_keys_of_another_form_are_refused_by_name(keys: Any) -> None:
    with pytest.raises(ConfigError, match="keys"):
        verifier(keys=keys, algorithms=["RS256"])
