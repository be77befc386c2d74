"""JSON Web Tokens into principals: what a token must be, and which of its claims mean what.

    verifier = Verifier(
        algorithms=["RS256"], keys={"2026-01": PEM}, issuer="https://id.example", audience="reports",
        claims=ClaimPaths(tenant="org", roles="realm_access.roles", attributes={"county": "county"}),
    )
    principal = verifier.verify(token)       # or TokenError, whose code says why

Nothing in a token chooses how it is verified. Algorithms come from the list given here; a key serves one family of them, so that a public
key is never taken for a shared secret; a key id only looks a key up among those given; links and keys inside the token
(jku, x5u, jwk, x5c) are not looked at. A token whose JSON says something twice is refused, because readers disagree on which counts.
No error has the token, or a part of it, in its text.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from windlass.clock import Clock, SystemClock
from windlass.errors import ConfigError, PayloadError, TokenError
from windlass.logger import get_logger
from windlass.payload import Limits, decode
from windlass.principal import Principal

log = get_logger("windlass.tokens")

MAX_LEEWAY: Final = 60.0
MAX_TOKEN: Final = 8 * 1024
MAX_KEY_ID: Final = 200
LEAST_RSA: Final = 2048

# Per algorithm: the family of keys it takes, and what a key must have: bytes of a secret, or the name of a curve.
ALGORITHMS: Final[Mapping[str, tuple[str, int | str | None]]] = {
    "HS256": ("secret", 32),
    "HS384": ("secret", 48),
    "HS512": ("secret", 64),
    **{f"{name}{bits}": ("rsa", None) for name in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("ec", "secp256r1"),
    "ES384": ("ec", "secp384r1"),
    "ES512": ("ec", "secp521r1"),
    "EdDSA": ("ed", None),
}
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})

# For keys that are asked for (a JWKS): how old they may be, how old when asking fails, and how soon an unknown id may ask again.
FRESH, STALE, AGAIN = 300.0, 3600.0, 10.0

_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")
_HEADER, _PAYLOAD = Limits(max_bytes=4096, max_depth=4), Limits(max_bytes=MAX_TOKEN, max_depth=8)
_LATEST = 253402300799.0  # the end of the year 9999, in seconds

Key = Any
"""A shared secret (bytes), a public key in PEM, one of the package cryptography, or a JWK (a dict)."""

KeySource = Mapping[str, Key] | Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPaths:
    """Where in a token's claims things stand; a path goes into nested claims by dots (``realm_access.roles``).

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
        self._ring = _Ring(keys, self._algorithms, monotonic)

    def verify(self, token: str) -> Principal:
        """The principal a token speaks for; ``TokenError`` for one that is not to be trusted."""
        header, claims = self._read(token)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            _refuse("token_algorithm", "its algorithm is not one of those allowed here")
        self._check_header(header)
        key = self._ring.find(header.get("kid"), algorithm)
        try:
            self._jws.decode(token, key, algorithms=[algorithm])
        except Exception:  # noqa: BLE001  the library's, the cryptography's: whatever it is, the signature did not verify
            raise TokenError("token_signature", "its signature does not fit") from None
        self._check_claims(claims)
        return self._principal(claims)

    # ------------------------------------------------------------------ form

    def _read(self, token: object) -> tuple[dict[str, Any], dict[str, Any]]:
        if not isinstance(token, str) or not token:
            _refuse("token_malformed", "it is no text")
        if len(token) > MAX_TOKEN:
            _refuse("token_too_large", f"it is longer than {MAX_TOKEN:,} characters")
        parts = _PARTS.fullmatch(token)
        if parts is None:
            _refuse("token_malformed", "it does not have three parts in base64url")
        header, claims, signature = parts.groups()
        if not signature:
            _refuse("token_signature", "it is not signed")
        _bytes(signature)
        return _object(header, "header", _HEADER), _object(claims, "claims", _PAYLOAD)

    def _check_header(self, header: Mapping[str, Any]) -> None:
        if "crit" in header or header.get("b64", True) is not True:
            _refuse("token_header", "its header asks for an extension that is not known here")
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower() not in TYPES or "cty" in header:
            _refuse("token_header", "its header says that it is no access token")

    # ------------------------------------------------------------------ claims

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        for name in self._required:
            if claims.get(name) is None:
                _refuse("token_claim_missing", f"it has no claim {name!r}")
        now, times = self._clock.now().timestamp(), {}
        for name in ("exp", "nbf", "iat"):
            if name in claims:
                times[name] = _seconds(name, claims[name])
        if times["exp"] <= now - self._leeway:
            _refuse("token_expired", "its time is over")
        if max(times.get("nbf", 0.0), times.get("iat", 0.0)) > now + self._leeway:
            _refuse("token_not_yet_valid", "its time has not come")
        issuer, audience = claims.get("iss"), claims.get("aud")
        if not isinstance(issuer, str) or issuer not in self._issuers:
            _refuse("token_issuer", "it is not from an issuer that is trusted here")
        meant_for = [audience] if isinstance(audience, str) else audience
        if not isinstance(meant_for, list) or not all(isinstance(item, str) for item in meant_for):
            _refuse("token_audience", "it does not say whom it is meant for")
        if self._audiences.isdisjoint(meant_for):
            _refuse("token_audience", "it is meant for somebody else")

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        paths = self._claims
        subject = _at(claims, paths.subject)
        if subject is None:
            _refuse("token_claim_missing", f"it has no claim {paths.subject!r}")
        tenant = None if paths.tenant is None else _at(claims, paths.tenant)
        if paths.tenant is not None and tenant is None:
            _refuse("token_claim_missing", f"it has no claim {paths.tenant!r}")
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


class _Ring:
    """Keys by id: those given, or those that were fetched last."""

    def __init__(self, source: KeySource, algorithms: frozenset[str], monotonic: Callable[[], float]) -> None:
        self._algorithms = algorithms
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._fetch = source if callable(source) else None
        self._keys: dict[str, _Key] = {}
        self._fetched_at = self._asked_at = float("-inf")
        if not callable(source):
            self._keys = _keys(source, algorithms)
            if not self._keys:
                raise ConfigError("keys", "none", f"at least one key for {', '.join(sorted(algorithms))}")

    def find(self, key_id: object, algorithm: str) -> Any:
        """The key of an id that fits an algorithm; without an id, the only key there is."""
        if key_id is not None and (not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID):
            _refuse("token_header", "its key id is no short text")
        keys = self._known(key_id)
        if key_id is not None:
            key = keys.get(key_id)
        else:
            key = next(iter(keys.values())) if len(keys) == 1 else None
        if key is None:
            _refuse("token_key_unknown", "its key is none of those known here")
        if not key.fits(algorithm):
            _refuse("token_algorithm", "its key is not one for its algorithm")
        return key.value

    def _known(self, key_id: object) -> Mapping[str, _Key]:
        if self._fetch is None:
            return self._keys
        now = self._monotonic()
        is_known = key_id in self._keys or (key_id is None and bool(self._keys))
        is_due = now - self._fetched_at >= FRESH or not is_known
        if is_due and now - self._asked_at >= AGAIN and self._lock.acquire(blocking=not self._keys):
            try:
                if self._monotonic() - self._asked_at >= AGAIN:  # nobody else did meanwhile
                    self._refresh(self._fetch)
            finally:
                self._lock.release()
        if self._monotonic() - self._fetched_at >= STALE:
            _refuse("token_keys_unavailable", "the keys to verify it with cannot be had at the moment")
        return self._keys

    def _refresh(self, fetch: Callable[[], Mapping[str, Any]]) -> None:
        self._asked_at = self._monotonic()
        try:
            self._keys = _keys(_jwks(fetch()), self._algorithms)
        except Exception:
            log.exception(
                "the keys of tokens could not be fetched; those from before are used for an hour at most"
            )
        else:
            self._fetched_at = self._asked_at


@dataclass(frozen=True, slots=True, repr=False)
class _Key:
    """A key and what it may be used for."""

    family: str
    value: Any
    detail: int | str | None  # bytes of a secret, the curve of an elliptic key
    algorithm: str | None = None  # where the key itself says that it is for this one only

    def fits(self, algorithm: str) -> bool:
        family, needed = ALGORITHMS[algorithm]
        if family != self.family or self.algorithm not in (None, algorithm):
            return False
        if isinstance(needed, int):
            return isinstance(self.detail, int) and self.detail >= needed
        return needed is None or needed == self.detail


def _keys(source: Mapping[str, Any], algorithms: frozenset[str]) -> dict[str, _Key]:
    """Keys from a mapping of ids, or from a JWKS, whose keys for something else are left out."""
    if isinstance(source.get("keys"), list):
        made = {}
        for number, item in enumerate(source["keys"]):
            if isinstance(item, Mapping) and item.get("use", "sig") == "sig":
                try:
                    key = _key(f"keys[{number}]", item)
                except ConfigError:  # of a family that is not known here; others may be
                    continue
                if any(key.fits(algorithm) for algorithm in algorithms):
                    made[str(item.get("kid", f"keys[{number}]"))] = key
        return made
    made = {str(name): _key(str(name), item) for name, item in source.items()}
    for name, key in made.items():
        if not any(key.fits(algorithm) for algorithm in algorithms):
            raise ConfigError(
                f"keys.{name}",
                key.family,
                f"a key for one of {', '.join(sorted(algorithms))} (HS256 wants 32 bytes, RSA 2,048 bits)",
            )
    return made


def _jwks(fetched: Any) -> Mapping[str, Any]:
    """What was fetched, if it is a JWKS: of the error that somebody answers instead, no text may become a shared secret."""
    if not isinstance(fetched, Mapping) or not isinstance(fetched.get("keys"), list):
        raise ConfigError("keys", type(fetched).__name__, 'a JWKS, {"keys": [...]}, from the function given')
    return fetched


def _key(name: str, item: Key) -> _Key:
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    algorithm = None
    if isinstance(item, Mapping):
        import jwt

        algorithm = item.get("alg")
        try:
            item = jwt.PyJWK(dict(item), algorithm).key
        except Exception:  # noqa: BLE001  whatever the library says, it quotes the key, which may be a secret
            raise ConfigError(f"keys.{name}", "***", "a JSON Web Key of a type that is known") from None
    text = item.encode() if isinstance(item, str) else item
    if isinstance(text, bytes):
        if b"-----BEGIN" not in text:
            return _Key("secret", text, len(text), algorithm)
        try:
            item = load_pem_public_key(text)
        except ValueError as error:
            raise ConfigError(
                f"keys.{name}", "***", "a public key in PEM, not a private one or a certificate"
            ) from error
    if isinstance(item, rsa.RSAPublicKey):
        if item.key_size < LEAST_RSA:
            raise ConfigError(
                f"keys.{name}", f"{item.key_size} bits", f"an RSA key of at least {LEAST_RSA:,} bits"
            )
        return _Key("rsa", item, None, algorithm)
    if isinstance(item, ec.EllipticCurvePublicKey):
        return _Key("ec", item, item.curve.name, algorithm)
    if isinstance(item, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return _Key("ed", item, None, algorithm)
    raise ConfigError(
        f"keys.{name}", type(item).__name__, "a secret (bytes), a public key, PEM text or a JWK"
    )


# ---------------------------------------------------------------------- parts


def _refuse(code: str, problem: str) -> NoReturn:
    raise TokenError(code, problem)


def _bytes(part: str) -> bytes:
    """A part of a token decoded; one that could have been written otherwise is refused, so that a token has one spelling."""
    try:
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenError("token_malformed", "a part of it is not base64url") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != part:
        _refuse("token_malformed", "a part of it is not base64url")
    return raw


def _object(part: str, what: str, limits: Limits) -> dict[str, Any]:
    try:
        tree = decode(_bytes(part), what=what, limits=limits)
    except PayloadError:
        raise TokenError("token_malformed", f"its {what} cannot be read, or say something twice") from None
    if not isinstance(tree, dict):
        _refuse("token_malformed", f"its {what} are no JSON object")
    return tree


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        _refuse("token_claim_invalid", f"its claim {name!r} is no time")
    return math.floor(value) if name == "exp" else float(value)


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """What stands at a path; None for nothing. A claim whose own name has dots is found first."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _roles(path: str, value: Any) -> set[str]:
    words = [] if value is None else value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        _refuse("token_claim_invalid", f"its claim {path!r} is no list of roles")
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
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= MAX_LEEWAY:
        raise ConfigError("leeway", given, f"seconds from 0 to {MAX_LEEWAY:g}")
    return float(given)


def _names(key: str, given: object) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence | Set) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(key, given, "a text, or several; a token for anybody is a token for nobody")
    return frozenset(names)


def _load() -> Any:
    try:
        import cryptography  # noqa: F401  PyJWT without it has half of the algorithms
        import jwt
    except ImportError as error:
        raise ConfigError(
            "tokens",
            "not installed",
            because="tokens need the packages pyjwt and cryptography; pip install 'windlass[auth]'",
        ) from error
    return jwt.PyJWS()
