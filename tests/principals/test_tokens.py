"""Tokens into principals: good ones are read, forged ones are refused with a code, and nothing of them is ever shown."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from tests.principals.tokens import (
    EC,
    ED,
    ISSUER,
    NOW,
    OTHER_RSA,
    RSA,
    SECRET,
    b64,
    claims,
    pem,
    signed,
    verifier,
)
from windlass.errors import TokenError
from windlass.principals.jwt import ClaimPaths
from windlass.principals.verification_keys import ALGORITHMS


def assembled(header: Any, payload: Any, sign: Callable[[bytes], bytes] | None = None) -> str:
    """A token put together by hand, signed by the right RSA key unless told otherwise."""
    text = f"{b64(header)}.{b64(payload)}"
    sign = sign or (lambda data: RSA.sign(data, padding.PKCS1v15(), SHA256()))
    return f"{text}.{b64(sign(text.encode()))}"


HEADER = {"alg": "RS256", "typ": "JWT", "kid": "rsa"}


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed"), (SECRET, "HS256", "hs")],
)
def test_a_good_token_becomes_a_principal(key: Any, algorithm: str, kid: str) -> None:
    found = verifier().verify(signed(key, algorithm, kid))
    assert (found.subject, found.tenant, found.issuer, found.token_id) == ("u-7", "acme", ISSUER, "t-1")
    assert found.roles == {"reports.read", "openid", "reports.write"}
    assert found.allowed_values("county") == ["Harju", "Tartu"]
    assert found.expires_at == NOW + timedelta(hours=1) and not found.is_service


def test_every_algorithm_that_is_offered_works() -> None:
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    for name in ALGORITHMS:
        private: Any = SECRET if name[:2] == "HS" else ED if name == "EdDSA" else RSA
        if name in curves:
            private = ec.generate_private_key(curves[name])
        public = private if name[:2] == "HS" else private.public_key()
        checked = verifier(algorithms=[name], keys={"k": public})
        assert checked.verify(signed(private, name, "k")).subject == "u-7", name


# Code and token of each forgery; all of them are made for the verifier above.
FORGED: dict[str, tuple[str, Callable[[], str]]] = {
    "no algorithm": ("token_algorithm", lambda: f"{b64({'alg': 'none', 'typ': 'JWT'})}.{b64(claims())}.{b64(b'x')}"),
    "no algorithm, unsigned": ("token_signature", lambda: f"{b64({'alg': 'none'})}.{b64(claims())}."),
    "None": ("token_algorithm", lambda: assembled({**HEADER, "alg": "None"}, claims())),
    "NONE": ("token_algorithm", lambda: assembled({**HEADER, "alg": "NONE"}, claims())),
    "nOnE": ("token_algorithm", lambda: assembled({**HEADER, "alg": "nOnE"}, claims())),
    "algorithm in a list": ("token_algorithm", lambda: assembled({**HEADER, "alg": ["RS256"]}, claims())),
    "algorithm missing": ("token_algorithm", lambda: assembled({"kid": "rsa"}, claims())),
    "algorithm not allowed": ("token_algorithm", lambda: signed(SECRET, "HS512", "hs")),
    "algorithm in small letters": ("token_algorithm", lambda: assembled({**HEADER, "alg": "rs256"}, claims())),
    "public key as the secret": (
        "token_algorithm",
        lambda: assembled(
            {**HEADER, "alg": "HS256"}, claims(), lambda data: hmac.digest(pem(RSA), data, hashlib.sha256)
        ),
    ),
    "secret's key for a public algorithm": ("token_algorithm", lambda: assembled({**HEADER, "kid": "hs"}, claims())),
    "key of another family": ("token_algorithm", lambda: assembled({**HEADER, "kid": "ec"}, claims())),
    "signed by somebody else": ("token_signature", lambda: signed(OTHER_RSA)),
    "unknown key id": ("token_key_unknown", lambda: signed(kid="other")),
    "key id that is a path": ("token_key_unknown", lambda: signed(SECRET, "HS256", "../../dev/null")),
    "key id that is an address": ("token_key_unknown", lambda: signed(kid="https://evil.example/key")),
    "key id that is SQL": ("token_key_unknown", lambda: signed(kid="x' UNION SELECT 'k")),
    "key id that is no text": ("token_header", lambda: assembled({**HEADER, "kid": {"a": 1}}, claims())),
    "key id that is endless": ("token_header", lambda: assembled({**HEADER, "kid": "k" * 300}, claims())),
    "no key id among several keys": ("token_key_unknown", lambda: signed(kid=None)),
    "its own key in the header": (
        "token_signature",
        lambda: signed(OTHER_RSA, header={"jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OTHER_RSA.public_key()))}),
    ),
    "a link to its own keys": ("token_signature", lambda: signed(OTHER_RSA, header={"jku": "https://evil.example/jwks"})),
    "a link to its own certificate": ("token_signature", lambda: signed(OTHER_RSA, header={"x5u": "https://evil.example"})),
    "critical extension": ("token_header", lambda: assembled({**HEADER, "crit": ["exp"]}, claims())),
    "payload that is not encoded": ("token_header", lambda: assembled({**HEADER, "b64": False}, claims())),
    "nested token": ("token_header", lambda: assembled({**HEADER, "cty": "JWT"}, claims())),
    "token of another kind": ("token_header", lambda: assembled({**HEADER, "typ": "logout+jwt"}, claims())),
    "wrong audience": ("token_audience", lambda: signed(aud="payments")),
    "no audience": ("token_audience", lambda: signed(aud=...)),
    "audience that only begins alike": ("token_audience", lambda: signed(aud="reports.evil")),
    "audience of a wrong type": ("token_audience", lambda: assembled(HEADER, claims(aud={"reports": True}))),
    "audience in a nested list": ("token_audience", lambda: assembled(HEADER, claims(aud=[["reports"]]))),
    "wrong issuer": ("token_issuer", lambda: signed(iss="https://evil.example")),
    "issuer that only begins alike": ("token_issuer", lambda: signed(iss=f"{ISSUER}.evil.example")),
    "issuer in a list": ("token_issuer", lambda: assembled(HEADER, claims(iss=[ISSUER]))),
    "no issuer": ("token_issuer", lambda: signed(iss=...)),
    "expired": ("token_expired", lambda: signed(exp=int((NOW - timedelta(seconds=31)).timestamp()))),
    "not yet valid": ("token_not_yet_valid", lambda: signed(nbf=int((NOW + timedelta(minutes=2)).timestamp()))),
    "issued in the future": ("token_not_yet_valid", lambda: signed(iat=int((NOW + timedelta(minutes=2)).timestamp()))),
    "never expires": ("token_claim_missing", lambda: signed(exp=...)),
    "expiry of null": ("token_claim_missing", lambda: assembled(HEADER, claims(exp=None))),
    "expiry as text": ("token_claim_invalid", lambda: assembled(HEADER, claims(exp="2999-01-01"))),
    "expiry of true": ("token_claim_invalid", lambda: assembled(HEADER, claims(exp=True))),
    "expiry beyond time": ("token_claim_invalid", lambda: assembled(HEADER, claims(exp=1e300))),
    "begin as text": ("token_claim_invalid", lambda: assembled(HEADER, claims(nbf="0"))),
    "no subject": ("token_claim_missing", lambda: signed(sub=...)),
    "empty subject": ("token_claim_invalid", lambda: signed(sub="")),
    "subject that is a number": ("token_claim_invalid", lambda: assembled(HEADER, claims(sub=7))),
    "subject with control characters": ("token_claim_invalid", lambda: signed(sub="u-7\nadmin")),
    "no tenant": ("token_claim_missing", lambda: signed(org=...)),
    "tenant in a list": ("token_claim_invalid", lambda: signed(org=["acme", "other"])),
    "roles as a mapping": ("token_claim_invalid", lambda: signed(realm={"roles": {"admin": True}})),
    "roles that are numbers": ("token_claim_invalid", lambda: signed(realm={"roles": [1]})),
    "attribute that is an object": ("token_claim_invalid", lambda: signed(county={"any": True})),
    "token id that is a number": ("token_claim_invalid", lambda: assembled(HEADER, claims(jti=7))),
    "claim that stands twice": (
        "token_malformed",
        lambda: assembled(HEADER, json.dumps(claims())[:-1] + ',"sub":"admin"}'),
    ),
    "algorithm that stands twice": (
        "token_malformed",
        lambda: assembled('{"alg":"none","alg":"RS256","kid":"rsa"}', claims()),
    ),
    "deeply nested claims": ("token_malformed", lambda: assembled(HEADER, '{"sub":' + "[" * 500 + "]" * 500 + "}")),
    "claims of null": ("token_malformed", lambda: assembled(HEADER, "null")),
    "claims that are a list": ("token_malformed", lambda: assembled(HEADER, "[1]")),
    "claims that are not JSON": ("token_malformed", lambda: assembled(HEADER, "sub=u-7")),
    "a number that is none": ("token_malformed", lambda: assembled(HEADER, json.dumps(claims())[:-1] + ',"x":NaN}')),
    "huge token": ("token_too_large", lambda: signed(county=["x" * 200] * 100)),
    "tampered claims": (
        "token_signature",
        lambda: ".".join([signed().split(".")[0], b64(claims(sub="admin")), signed().split(".")[2]]),
    ),
    "tampered header": ("token_signature", lambda: ".".join([b64({**HEADER, "x": 1}), *signed().split(".")[1:]])),
    "tampered signature": (
        "token_signature",
        lambda: signed().rpartition(".")[0] + "." + b64(bytes(255) + b"\x01"),
    ),
    "shortened signature": ("token_signature", lambda: signed().rpartition(".")[0] + "." + b64(b"short")),
    "empty signature": ("token_signature", lambda: signed().rpartition(".")[0] + "."),
    "signature in another spelling": ("token_malformed", lambda: signed()[:-1] + _other_spelling(signed()[-1])),
    "two parts": ("token_malformed", lambda: signed().rpartition(".")[0]),
    "five parts": ("token_malformed", lambda: signed() + ".a.b"),
    "padding": ("token_malformed", lambda: signed() + "="),
    "line break at the end": ("token_malformed", lambda: signed() + "\n"),
    "blanks": ("token_malformed", lambda: f" {signed()}"),
    "empty": ("token_malformed", lambda: ""),
    "words": ("token_malformed", lambda: "Bearer token"),
}  # fmt: skip


def _other_spelling(letter: str) -> str:
    """A last letter that decodes to the same bytes: its lowest bits belong to no byte (256 bytes end with 2 of 6 bits)."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return alphabet[alphabet.index(letter) | 1]


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_is_refused_with_its_code_and_never_shown(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    code, make = FORGED[name]
    token = make()
    with caplog.at_level(logging.DEBUG), pytest.raises(TokenError) as caught:
        verifier().verify(token)
    assert caught.value.code == code
    told = f"{caught.value} {caught.value.__dict__} {caught.value.__cause__!r} {caplog.text}"
    for part in [token, *token.split(".")]:
        assert len(part) < 12 or part not in told
    assert "evil" not in told and "admin" not in told and "/dev/null" not in told


def test_there_are_at_least_25_forgeries() -> None:
    assert len(FORGED) >= 25


@pytest.mark.parametrize("token", [None, b"a.b.c", 7, ["a"]])
def test_what_is_no_text_is_refused(token: Any) -> None:
    with pytest.raises(TokenError, match="not text"):
        verifier().verify(token)


@pytest.mark.slow
@given(
    st.text(max_size=200)
    | st.from_regex(r"[A-Za-z0-9_-]{1,40}\.[A-Za-z0-9_-]{1,80}\.[A-Za-z0-9_-]{0,40}", fullmatch=True)
)
def test_no_text_at_all_raises_anything_else(text: str) -> None:
    with pytest.raises(TokenError):
        CHECKED.verify(text)


@given(st.data())
def test_no_token_with_one_changed_letter_passes(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(GOOD) - 1))
    letter = data.draw(st.sampled_from("ABCxyz019-_."))
    changed = GOOD[:place] + letter + GOOD[place + 1 :]
    if changed != GOOD:
        with pytest.raises(TokenError):
            CHECKED.verify(changed)


CHECKED = verifier()
GOOD = signed()


def test_links_in_a_header_are_not_followed_and_do_no_harm() -> None:
    """Nothing here can open a connection; a token whose signature is right is right."""
    links = {
        "jku": "https://evil.example",
        "x5u": "https://evil.example",
        "x5c": ["MII"],
        "jwk": {"kty": "oct", "k": "AA"},
    }
    assert verifier().verify(signed(header=links)).subject == "u-7"


def test_leeway_is_kept_to_the_second() -> None:
    def at(exp: int) -> str:
        return signed(exp=int(NOW.timestamp()) + exp)

    assert verifier(leeway=30).verify(at(-29)).subject == "u-7"
    for leeway, exp in ((30, -30), (0, 0)):
        with pytest.raises(TokenError, match="it has expired"):
            verifier(leeway=leeway).verify(at(exp))
    early = signed(nbf=int(NOW.timestamp()) + 30)
    assert verifier(leeway=30).verify(early).subject == "u-7"
    with pytest.raises(TokenError, match="not valid yet"):
        verifier(leeway=29).verify(early)


def test_further_claims_can_be_required() -> None:
    with pytest.raises(TokenError, match="azp"):
        verifier(required=["azp"]).verify(signed())
    assert verifier(required=["azp"]).verify(signed(azp="web")).subject == "u-7"


def test_a_claim_whose_name_has_dots_is_found() -> None:
    paths = ClaimPaths(roles="https://acme.example/roles")
    odd: dict[str, Any] = {"https://acme.example/roles": ["a"]}
    found = verifier(claims=paths).verify(signed(**odd))
    assert found.roles == {"a"} and found.tenant is None and found.attributes == {}
