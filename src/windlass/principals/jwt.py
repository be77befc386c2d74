"""Verifies JSON Web Tokens, and makes principals from their claims.

    verifier = Verifier(
        algorithms=["RS256"], keys={"2026-01": PEM}, issuer="https://id.example", audience="reports",
        claims=ClaimPaths(tenant="org", roles="realm_access.roles", attributes={"county": "county"}),
    )
    principal = verifier.verify(token)       # or TokenError, whose code says why

Nothing in a token chooses how it is verified. Algorithms come from the list given here; a key serves one family of them, so that a public
key is never used as a shared secret; a key id only selects one of the given keys; links and keys inside the token (jku, x5u, jwk, x5c) are
ignored. A token whose JSON has a key twice is refused, because readers disagree on which value counts. No error contains the token, or a
part of it.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from windlass.arguments.encoding import decode
from windlass.arguments.limits import Limits
from windlass.clock import Clock, SystemClock
from windlass.errors import ConfigError, PayloadError, TokenError
from windlass.model.principal import Principal
from windlass.principals.verification_keys import ALGORITHMS, KeyRing, KeySource, refuse
from windlass.ranges import is_number

MAX_LEEWAY: Final = 60.0
MAX_TOKEN: Final = 8 * 1024

TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})

_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")
_HEADER, _PAYLOAD = Limits(max_bytes=4096, max_depth=4), Limits(max_bytes=MAX_TOKEN, max_depth=8)
_LATEST = 253402300799.0  # the end of the year 9999, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPaths:
    """Paths of the claims of a token; a path enters nested claims by dots (``realm_access.roles``).

    ``roles`` may be several paths, and a text at one of them is a list of words (``scope``). With a ``tenant`` path, a token
    without a tenant is refused; without one, principals have none. ``attributes`` names the attributes to capture.
    """

    subject: str = "sub"
    tenant: str | None = None
    roles: str | Sequence[str] = "roles"
    attributes: Mapping[str, str] = field(default_factory=dict)


class Verifier:
    """Verifies tokens of one kind. Safe to share between threads.

    ``keys`` are keys by id, a JWKS, or a function that fetches a JWKS; it is called again every five minutes, and for an id that is not
    known (at most every ten seconds). ``required`` names further claims that must be there.
    """

    def __init__(
        self,
        *,
        algorithms: Sequence[str],
        keys: KeySource,
        issuer: str | Sequence[str],
        audience: str | Sequence[str],
        leeway: float = 30.0,
        required: Iterable[str] = (),
        claims: ClaimPaths | None = None,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jws = _load()
        self._algorithms = _algorithms(algorithms)
        self._issuers = _names("issuer", issuer)
        self._audiences = _names("audience", audience)
        self._leeway = _leeway(leeway)
        if isinstance(required, str):
            raise ConfigError("required", required, "a list of claims' names")
        self._required = ("exp", *required)
        self._claims = claims or ClaimPaths()
        self._clock = clock or SystemClock()
        self._ring = KeyRing(keys, self._algorithms, monotonic)

    @property
    def may_block(self) -> bool:
        """Whether ``verify`` may wait: for keys that are fetched."""
        return self._ring.fetches

    def verify(self, token: str) -> Principal:
        """Return the principal of a token; ``TokenError`` for one that cannot be trusted."""
        header, claims = self._read(token)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            refuse("token_algorithm", "its algorithm is not allowed here")
        self._check_header(header)
        key = self._ring.find(header.get("kid"), algorithm)
        try:
            self._jws.decode(token, key, algorithms=[algorithm])
        except Exception:  # noqa: BLE001  any error of the libraries means that the signature is wrong
            raise TokenError("token_signature", "its signature is wrong") from None
        self._check_claims(claims)
        return self._principal(claims)

    # ------------------------------------------------------------------ form

    def _read(self, token: object) -> tuple[dict[str, Any], dict[str, Any]]:
        if not isinstance(token, str) or not token:
            refuse("token_malformed", "it is not text")
        if len(token) > MAX_TOKEN:
            refuse("token_too_large", f"it is longer than {MAX_TOKEN:,} characters")
        parts = _PARTS.fullmatch(token)
        if parts is None:
            refuse("token_malformed", "it does not have three parts in base64url")
        header, claims, signature = parts.groups()
        if not signature:
            refuse("token_signature", "it is not signed")
        _bytes(signature)
        return _object(header, "header", _HEADER), _object(claims, "claims", _PAYLOAD)

    def _check_header(self, header: Mapping[str, Any]) -> None:
        if "crit" in header or header.get("b64", True) is not True:
            refuse("token_header", "its header requires an extension that is not known here")
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower() not in TYPES or "cty" in header:
            refuse("token_header", "its header does not have the type of an access token")

    # ------------------------------------------------------------------ claims

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        for name in self._required:
            if claims.get(name) is None:
                refuse("token_claim_missing", f"it has no claim {name!r}")
        now, times = self._clock.now().timestamp(), {}
        for name in ("exp", "nbf", "iat"):
            if name in claims:
                times[name] = _seconds(name, claims[name])
        if times["exp"] <= now - self._leeway:
            refuse("token_expired", "it has expired")
        if max(times.get("nbf", 0.0), times.get("iat", 0.0)) > now + self._leeway:
            refuse("token_not_yet_valid", "it is not valid yet")
        issuer, audience = claims.get("iss"), claims.get("aud")
        if not isinstance(issuer, str) or issuer not in self._issuers:
            refuse("token_issuer", "it is not from an issuer that is trusted here")
        meant_for = [audience] if isinstance(audience, str) else audience
        if not isinstance(meant_for, list) or not all(isinstance(item, str) for item in meant_for):
            refuse("token_audience", "it names no audience")
        if self._audiences.isdisjoint(meant_for):
            refuse("token_audience", "it is for another audience")

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        paths = self._claims
        subject = _at(claims, paths.subject)
        if subject is None:
            refuse("token_claim_missing", f"it has no claim {paths.subject!r}")
        tenant = None if paths.tenant is None else _at(claims, paths.tenant)
        if paths.tenant is not None and tenant is None:
            refuse("token_claim_missing", f"it has no claim {paths.tenant!r}")
        roles: set[str] = set()
        for path in [paths.roles] if isinstance(paths.roles, str) else paths.roles:
            roles |= _roles(path, _at(claims, path))
        found = {name: _at(claims, path) for name, path in paths.attributes.items()}
        try:
            return Principal(
                subject,
                tenant=tenant,
                roles=frozenset(roles),
                attributes={name: value for name, value in found.items() if value is not None},
                issuer=claims["iss"],
                expires_at=datetime.fromtimestamp(_seconds("exp", claims["exp"]), UTC),
                token_id=claims.get("jti"),
            )
        except ConfigError as error:
            raise TokenError("token_claim_invalid", f"{error.key} must be {error.allowed}") from None


# ---------------------------------------------------------------------- parts


def _bytes(part: str) -> bytes:
    """Decode a part of a token; a part in a non-canonical form is refused, so that a token has one spelling."""
    try:
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenError("token_malformed", "a part of it is not base64url") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != part:
        refuse("token_malformed", "a part of it is not base64url")
    return raw


def _object(part: str, what: str, limits: Limits) -> dict[str, Any]:
    try:
        tree = decode(_bytes(part), what=what, limits=limits)
    except PayloadError:
        raise TokenError(
            "token_malformed", f"its {what} cannot be parsed (wrong JSON, or a key that appears twice)"
        ) from None
    if not isinstance(tree, dict):
        refuse("token_malformed", f"its {what} must be a JSON object")
    return tree


def _seconds(name: str, value: object) -> float:
    if not is_number(value, 0, _LATEST):
        refuse("token_claim_invalid", f"its claim {name!r} is not a time")
    return math.floor(value) if name == "exp" else float(value)


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim at a path, or None. A claim whose name contains dots is found first."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _roles(path: str, value: Any) -> set[str]:
    words = [] if value is None else value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        refuse("token_claim_invalid", f"its claim {path!r} is not a list of roles")
    return set(words)


def _algorithms(given: Sequence[str]) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in ALGORITHMS:
            raise ConfigError("algorithms", name, f"some of {', '.join(ALGORITHMS)}")
    if not names:
        raise ConfigError("algorithms", "none", f"some of {', '.join(ALGORITHMS)}")
    return frozenset(names)


def _leeway(given: object) -> float:
    if not is_number(given, 0, MAX_LEEWAY):
        raise ConfigError("leeway", given, f"seconds from 0 to {MAX_LEEWAY:g}")
    return float(given)


def _names(key: str, given: object) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence | Set) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(key, given, "a text, or several; it cannot be left out")
    return frozenset(names)


def _load() -> Any:
    try:
        import cryptography  # noqa: F401  without it PyJWT has only half of the algorithms
        import jwt
    except ImportError as error:
        raise ConfigError(
            "tokens",
            "not installed",
            because="tokens need the packages pyjwt and cryptography; pip install 'windlass[auth]'",
        ) from error
    return jwt.PyJWS()
