"""Bearer tokens: which are accepted, and with what all others are refused."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.api.access.conftest import SECRET, Connect, Keys, bearer
from windlass import App
from windlass.api import ApiSettings
from windlass.clock import ManualClock
from windlass.errors import ConfigError

pytestmark = pytest.mark.one_database


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "HS256"])
def test_a_jwt_is_verified_by_the_keys_of_its_issuer(
    connect: Connect, jwt_settings: ApiSettings, keys: Keys, algorithm: str
) -> None:
    found = connect(jwt_settings).get("/v1/session", headers=bearer(keys.token(algorithm)))
    assert found.status_code == 200
    told = found.json()
    assert (told["subject"], told["tenant"], told["roles"], told["how"]) == (
        "anna",
        "acme",
        ["view"],
        "bearer",
    )
    assert told["sees"] == "own"


def unsigned(keys: Keys) -> str:
    _, body, _ = keys.token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return f"{none}.{body}."


def swapped(keys: Keys) -> str:
    """The public key used as the shared secret."""
    public = keys.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _, body, _ = keys.token().split(".")
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"RS256"}').rstrip(b"=").decode()
    signature = hmac.digest(public, f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def tampered(keys: Keys) -> str:
    head, body, signature = keys.token().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "boss"}).encode()).rstrip(b"=").decode()
    return f"{head}.{changed}.{signature}"


def now() -> int:
    """The time when a test runs, not when it was collected: a whole run takes minutes."""
    return int(time.time())


FORGED: dict[str, Callable[[Keys], str]] = {
    "unsigned": unsigned,
    "key swap": swapped,
    "tampered": tampered,
    "another key": lambda keys: keys.token("HS256", key=b"x" * 32),
    "key id of another algorithm": lambda keys: keys.token("HS256", kid="RS256"),
    "key id as a path": lambda keys: keys.token("HS256", kid="../../../dev/null"),
    "unknown key id": lambda keys: keys.token(kid="other"),
    "algorithm that is not allowed": lambda keys: jwt.encode(
        {"sub": "x"}, SECRET * 2, "HS512", {"kid": "HS256"}
    ),
    "expired": lambda keys: keys.token(exp=now() - 60),
    "not yet valid": lambda keys: keys.token(nbf=now() + 600),
    "from the future": lambda keys: keys.token(iat=now() + 600),
    "without an end": lambda keys: keys.token(exp=None),
    "wrong audience": lambda keys: keys.token(aud="mail"),
    "no audience": lambda keys: keys.token(aud=None),
    "wrong issuer": lambda keys: keys.token(iss="https://evil.example"),
    "issuer with a suffix": lambda keys: keys.token(iss="https://id.example.evil"),
    "no tenant": lambda keys: keys.token(org=None),
    "no subject": lambda keys: keys.token(sub=None),
    "roles of another type": lambda keys: keys.token(roles={"windlass:admin": True}),
    "half a token": lambda keys: keys.token().rpartition(".")[0],
    "token and more": lambda keys: keys.token() + ".x",
    "too long": lambda keys: keys.token(padding="x" * 9000),
    "text": lambda keys: "letmein",
    "empty API token": lambda keys: "wl_",
    "API token of another database": lambda keys: "wl_" + "0" * 32 + "_" + "a" * 43,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_token_is_refused(
    connect: Connect, jwt_settings: ApiSettings, keys: Keys, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = FORGED[name](keys)
    with caplog.at_level(logging.DEBUG):
        found = connect(jwt_settings).get("/v1/jobs", headers=bearer(token))
    assert found.status_code == 401 and found.json()["code"] == "unauthenticated"
    assert 'error="invalid_token"' in found.headers["WWW-Authenticate"]
    assert token not in found.text + str(found.headers) + caplog.text or len(token) < 8


@pytest.mark.parametrize(
    ("header", "status"),
    [("", 401), ("Bearer", 401), ("Basic YTpi", 401), ("Bearer a b", 401), ("Bearer a, Bearer b", 401)],
)
def test_a_malformed_header_is_refused_whatever_else_the_request_has(
    connect: Connect, header: str, status: int
) -> None:
    client = connect(ApiSettings(no_auth=True))
    assert client.get("/v1/jobs").status_code == 200
    assert client.get("/v1/jobs", headers={"Authorization": header}).status_code == status


def test_an_api_token_is_accepted_until_it_ends(connect: Connect, app: App, clock: ManualClock) -> None:
    client, made = connect(), app.tokens.create("wall", ["view"], tenant="acme")
    told = client.get("/v1/session", headers=bearer(made.text)).json()
    assert (told["subject"], told["roles"], told["sees"]) == ("token:wall", ["view"], "tenant")
    clock.advance(90 * 86_400)
    assert client.get("/v1/session", headers=bearer(made.text)).status_code == 401
    other = app.tokens.create("other", ["view"])
    assert client.get("/v1/session", headers=bearer(other.text)).status_code == 200
    app.tokens.revoke("other")
    refused = client.get("/v1/session", headers=bearer(other.text))
    assert refused.status_code == 401 and other.text not in refused.text


def test_jwts_need_keys(connect: Connect, keys: Keys) -> None:
    found = connect().get("/v1/jobs", headers=bearer(keys.token()))
    assert found.status_code == 401 and "api.jwks" in found.json()["detail"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"jwks": "no-such-file.json"}, "api.jwks"),
        ({"jwks": "http://id.example/keys"}, "api.jwks"),
        ({"jwks": "https://user:pass@id.example/keys"}, "api.jwks"),
        ({"jwks": "file:///etc/passwd"}, "api.jwks"),
        ({"jwt_issuer": []}, "api.jwt_issuer"),
        ({"jwt_audience": []}, "api.jwt_audience"),
        ({"jwt_algorithms": ["none"]}, "algorithms"),
    ],
)
def test_settings_that_cannot_work_are_found_at_the_start(
    connect: Connect, jwt_settings: ApiSettings, settings: dict[str, Any], key: str
) -> None:
    from dataclasses import replace

    with pytest.raises(ConfigError, match=key) as caught:
        connect(replace(jwt_settings, **settings))
    assert "pass@" not in str(caught.value)


def test_keys_are_fetched_from_a_url(
    connect: Connect, jwt_settings: ApiSettings, keys: Keys, web_server: Callable[[dict[str, str]], str]
) -> None:
    from dataclasses import replace

    url = web_server({"/keys": keys.jwks()})
    client = connect(replace(jwt_settings, jwks=f"{url}/keys"))
    assert client.get("/v1/session", headers=bearer(keys.token())).status_code == 200
    lost = connect(replace(jwt_settings, jwks=f"{url}/elsewhere"))
    found = lost.get("/v1/session", headers=bearer(keys.token()))
    assert found.status_code == 503 and "Retry-After" in found.headers
