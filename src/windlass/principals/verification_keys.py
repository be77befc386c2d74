"""The keys that verify tokens: by id, given once or fetched repeatedly (a JWKS).

PyJWT reads keys and decides by type, curve and length which algorithms a key is for. The set of keys is kept here, because PyJWT's
``PyJWKClient`` refuses all tokens when the issuer is away for longer than the lifetime of its cache, fetches again for every unknown id
while the issuer fails, blocks all callers during a fetch, and needs a URL instead of the application's own function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

from windlass import forking
from windlass.errors import ConfigError, TokenError
from windlass.observe.logger import get_logger

log = get_logger("windlass.principals.jwt")

MAX_KEY_ID: Final = 200

ALGORITHMS: Final = (
    *("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

# Seconds for fetched keys (a JWKS): their age before the next fetch, their greatest age when fetches fail, and the time between fetches.
FRESH, STALE, AGAIN = 300.0, 3600.0, 10.0

Key = Any
"""A shared secret (bytes), a public key in PEM, a key object of the package cryptography, or a JWK (a dict)."""

Prepared = dict[str, Any]
"""A key by the names of its algorithms, each in the form that PyJWT needs."""

KeySource = Mapping[str, Key] | Callable[[], Mapping[str, Any]]


class KeyRing:
    """Keys by id: the given ones, or the ones that were fetched last."""

    def __init__(self, source: KeySource, algorithms: frozenset[str], monotonic: Callable[[], float]) -> None:
        self._algorithms = algorithms
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._fetch = source if callable(source) else None
        self._keys: dict[str, Prepared] = {}
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
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Fetch for itself: a thread of the parent may be fetching, and holds the lock."""
        self._lock = threading.Lock()
        self._asked_at = float("-inf")

    @property
    def fetches(self) -> bool:
        """Whether keys are fetched, and not given once."""
        return self._fetch is not None

    def find(self, key_id: object, algorithm: str) -> Any:
        """Return the key of an id for an algorithm; without an id, the only key."""
        if key_id is not None and (not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID):
            refuse("token_header", "its key id is not a short text")
        keys = self._known(key_id)
        if key_id is not None:
            key = keys.get(key_id)
        else:
            key = next(iter(keys.values())) if len(keys) == 1 else None
        if key is None:
            refuse("token_key_unknown", "its key is not known here")
        if algorithm not in key:
            refuse("token_algorithm", "its key is not for its algorithm")
        return key[algorithm]

    def _known(self, key_id: object) -> Mapping[str, Prepared]:
        if self._fetch is None:
            return self._keys
        now = self._monotonic()
        is_known = key_id in self._keys or (key_id is None and bool(self._keys))
        is_due = now - self._fetched_at >= FRESH or not is_known
        if is_due and now - self._asked_at >= AGAIN and self._lock.acquire(blocking=not self._keys):
            try:
                if self._monotonic() - self._asked_at >= AGAIN:  # no other thread did meanwhile
                    self._refresh(self._fetch)
            finally:
                self._lock.release()
        if self._monotonic() - self._fetched_at >= STALE:
            refuse("token_keys_unavailable", "the keys to verify it are not available now")
        return self._keys

    def _refresh(self, fetch: Callable[[], Mapping[str, Any]]) -> None:
        self._asked_at = self._monotonic()
        try:
            self._keys = _keys(_jwks(fetch()), self._algorithms)
        except Exception:
            log.exception(
                "the keys of tokens could not be fetched; the previous keys are used for at most an hour"
            )
        else:
            self._fetched_at = self._asked_at


def _keys(source: Mapping[str, Any], algorithms: frozenset[str]) -> dict[str, Prepared]:
    """Return keys from a mapping of ids, or from a JWKS, without its keys for other purposes."""
    if isinstance(source.get("keys"), list):
        found = {
            str(item.get("kid", f"keys[{number}]")): _prepared(item, algorithms)
            for number, item in enumerate(source["keys"])
            if isinstance(item, Mapping) and item.get("use", "sig") == "sig"
        }
        return {name: key for name, key in found.items() if key}
    made = {str(name): _prepared(item, algorithms) for name, item in source.items()}
    for name, key in made.items():
        if not key:
            raise ConfigError(
                f"keys.{name}",
                "***",
                f"a key for one of {', '.join(sorted(algorithms))}: a public key (PEM, or an object of the package cryptography; RSA of 2,048 "
                "bits or more), a JWK, or a secret (HS256 needs 32 bytes)",
            )
    return made


def _jwks(fetched: Any) -> Mapping[str, Any]:
    """Return a fetched JWKS; refuse everything else, so that no text of an error page becomes a shared secret."""
    if not isinstance(fetched, Mapping) or not isinstance(fetched.get("keys"), list):
        raise ConfigError("keys", type(fetched).__name__, 'a JWKS, {"keys": [...]}, from the function given')
    return fetched


def _prepared(item: Key, algorithms: frozenset[str]) -> Prepared:
    """Return a key by its algorithms; empty if it has another type or curve, is too short, or is private."""
    from jwt import PyJWK, get_algorithm_by_name

    only = None
    made: Prepared = {}
    try:
        if isinstance(item, Mapping):
            only = item.get("alg")
            item = PyJWK(dict(item), only).key
    except Exception:  # noqa: BLE001  errors of the library may contain the key, which may be secret
        return made
    for name in algorithms:
        algorithm = get_algorithm_by_name(name)
        with suppress(Exception):  # as above
            key = algorithm.prepare_key(item)
            is_private = hasattr(key, "private_bytes")
            if only in (None, name) and not is_private and algorithm.check_key_length(key) is None:
                made[name] = key
    return made


def refuse(code: str, problem: str) -> NoReturn:
    """Raise ``TokenError``; its text contains nothing of the token."""
    raise TokenError(code, problem)
