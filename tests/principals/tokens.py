"""Keys, claims and signed tokens for tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from windlass.clock import ManualClock
from windlass.principals.jwt import ClaimPaths, Verifier

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
SECRET = bytes(range(64))
NOW = ManualClock().now()
ISSUER, AUDIENCE = "https://id.example", "reports"


def pem(key: Any) -> bytes:
    public: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public


def verifier(**changes: Any) -> Verifier:
    given: dict[str, Any] = {
        "algorithms": ["RS256", "ES256", "EdDSA", "HS256"],
        "keys": {"rsa": pem(RSA), "ec": pem(EC), "ed": pem(ED), "hs": SECRET},
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "claims": ClaimPaths(tenant="org", roles=("realm.roles", "scope"), attributes={"county": "county"}),
        "clock": ManualClock(),
    }
    return Verifier(**{**given, **changes})


def claims(**changes: Any) -> dict[str, Any]:
    base = {
        "sub": "u-7",
        "org": "acme",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int((NOW + timedelta(hours=1)).timestamp()),
        "iat": int(NOW.timestamp()),
        "jti": "t-1",
        "realm": {"roles": ["reports.read"]},
        "scope": "openid reports.write",
        "county": ["Harju", "Tartu"],
    }
    return {name: value for name, value in {**base, **changes}.items() if value is not ...}


def signed(
    key: Any = RSA, algorithm: str = "RS256", kid: Any = "rsa", header: Any = None, **changes: Any
) -> str:
    headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
    return jwt.encode(claims(**changes), key, algorithm, headers)


def b64(data: bytes | str | Mapping[str, Any]) -> str:
    raw = (
        json.dumps(data).encode()
        if isinstance(data, Mapping)
        else data.encode()
        if isinstance(data, str)
        else data
    )
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
