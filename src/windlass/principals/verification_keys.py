"""The keys that tokens are verified with: by id, each for one family of algorithms, given once or fetched again and again (a JWKS)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from windlass.errors import ConfigError, TokenError
from windlass.observe.logger import get_logger

log = get_logger("windlass.principals.jwt")

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

# For keys that are asked for (a JWKS): how old they may be, how old when asking fails, and how soon an unknown id may ask again.
FRESH, STALE, AGAIN = 300.0, 3600.0, 10.0

Key = Any
"""A shared secret (bytes), a public key in PEM, one of the package cryptography, or a JWK (a dict)."""

KeySource = Mapping[str, Key] | Callable[[], Mapping[str, Any]]


class KeyRing:
    """Keys by id: those given, or those that were fetched last."""

    def __init__(self, source: KeySource, algorithms: frozenset[str], monotonic: Callable[[], float]) -> None:
        self._algorithms = algorithms
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._fetch = source if callable(source) else None
        self._keys: dict[str, VerifyingKey] = {}
        self._fetched_at = self._asked_at = float("-inf")
        if not callable(source) and not isinstance(source, Mapping):
            raise ConfigError(
                "keys",
                f"a {type(source).__name__}",
                "keys by id ({'key-1': key}), a JWKS as a mapping, or a function that fetches one",
            )
        if not callable(source):
            self._keys = _keys(source, algorithms)
            if not self._keys:
                raise ConfigError("keys", "none", f"at least one key for {', '.join(sorted(algorithms))}")

    def find(self, key_id: object, algorithm: str) -> Any:
        """The key of an id that fits an algorithm; without an id, the only key there is."""
        if key_id is not None and (not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID):
            refuse("token_header", "its key id is no short text")
        keys = self._known(key_id)
        if key_id is not None:
            key = keys.get(key_id)
        else:
            key = next(iter(keys.values())) if len(keys) == 1 else None
        if key is None:
            refuse("token_key_unknown", "its key is none of those known here")
        if not key.fits(algorithm):
            refuse("token_algorithm", "its key is not one for its algorithm")
        return key.value

    def _known(self, key_id: object) -> Mapping[str, VerifyingKey]:
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
            refuse("token_keys_unavailable", "the keys to verify it with cannot be had at the moment")
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
class VerifyingKey:
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


def _keys(source: Mapping[str, Any], algorithms: frozenset[str]) -> dict[str, VerifyingKey]:
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


def _key(name: str, item: Key) -> VerifyingKey:
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
            return VerifyingKey("secret", text, len(text), algorithm)
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
        return VerifyingKey("rsa", item, None, algorithm)
    if isinstance(item, ec.EllipticCurvePublicKey):
        return VerifyingKey("ec", item, item.curve.name, algorithm)
    if isinstance(item, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return VerifyingKey("ed", item, None, algorithm)
    raise ConfigError(
        f"keys.{name}", type(item).__name__, "a secret (bytes), a public key, PEM text or a JWK"
    )


def refuse(code: str, problem: str) -> NoReturn:
    """A token is not to be trusted; nothing of it is said."""
    raise TokenError(code, problem)
