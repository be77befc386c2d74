"""Raw tokens at rest: AES-256-GCM, each sealed for one job of one tenant, with the id of the key beside it.

Keys have ids. The first one seals; all of them open. So a key is rotated by putting a new one in front, and is given up when no
job needs it any more. What was sealed for one job cannot be opened as another's: job and tenant are part of what is authenticated.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from windlass.errors import ConfigError, SealError
from windlass.model.principal import Sealed

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
MAX_TOKEN: Final = 16 * 1024
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RULE = "ids with keys of 32 bytes in base64, the one that seals first: new:BASE64,old:BASE64"


class TokenKeys:
    """The keys of kept tokens, by id; the first one seals. Shows ids only, never a key.

    >>> keys = TokenKeys({"2026-02": bytes(32), "2026-01": bytes(range(32))})
    >>> keys
    <TokenKeys 2026-02, 2026-01>
    """

    def __init__(self, keys: Mapping[str, Any]) -> None:
        if not keys or not all(_KEY_ID.fullmatch(name) for name in keys):
            raise ConfigError("principal.keys", "***", f"{_RULE}; ids of up to 64 letters, digits and . _ -")
        if any(not isinstance(key, bytes) or len(key) != KEY_BYTES for key in keys.values()):
            raise ConfigError("principal.keys", "***", "of 32 bytes each; TokenKeys.new() makes one")
        self._ciphers = {name: _cipher(key) for name, key in keys.items()}
        self._seals_with = next(iter(keys))

    @classmethod
    def parse(cls, given: str | Mapping[str, str]) -> TokenKeys:
        """Keys from a setting: ``new:BASE64,old:BASE64``, or a table of ids and keys."""
        if isinstance(given, str):
            pairs = [part.strip().partition(":")[::2] for part in given.split(",") if part.strip()]
        elif isinstance(given, Mapping):
            pairs = [(str(name), str(text)) for name, text in given.items()]
        else:
            raise ValueError(_RULE)
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError(_RULE)
        try:
            keys = {name: base64.b64decode(text, validate=True) for name, text in pairs}
        except binascii.Error:
            raise ValueError(_RULE) from None
        return cls(keys)

    @staticmethod
    def new() -> str:
        """A new key in base64, for a setting."""
        return base64.b64encode(os.urandom(KEY_BYTES)).decode()

    def seal(self, token: str, *, job_id: str, tenant: str | None) -> Sealed:
        """Seal a token for a job."""
        plain = token.encode()
        if not 0 < len(plain) <= MAX_TOKEN:
            raise ConfigError("token", f"{len(plain):,} bytes", f"1 to {MAX_TOKEN:,} bytes")
        nonce = os.urandom(NONCE_BYTES)
        cipher = self._ciphers[self._seals_with]
        text = nonce + cipher.encrypt(nonce, plain, _bound_to(self._seals_with, job_id, tenant))
        return Sealed(self._seals_with, base64.b64encode(text).decode())

    def open(self, sealed: Sealed, *, job_id: str, tenant: str | None) -> str:
        """The token that was sealed for this job; ``SealError`` where the key is gone or it was not this job's."""
        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise SealError(
                "seal_key_missing",
                f"job {job_id} was sealed with the key {sealed.key_id!r}, which principal.keys does not have; "
                "put it back behind the others",
            )
        from cryptography.exceptions import InvalidTag

        try:
            text = base64.b64decode(sealed.text, validate=True)
            plain = cipher.decrypt(
                text[:NONCE_BYTES], text[NONCE_BYTES:], _bound_to(sealed.key_id, job_id, tenant)
            )
        except (InvalidTag, binascii.Error, ValueError):
            raise SealError(
                "seal_broken",
                f"what is stored with job {job_id} was not sealed for it with the key {sealed.key_id!r}",
            ) from None
        return str(plain.decode())

    def __repr__(self) -> str:
        return f"<TokenKeys {', '.join(self._ciphers)}>"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        raise TypeError("keys are not copied or sent anywhere")


def _bound_to(key_id: str, job_id: str, tenant: str | None) -> bytes:
    """The data that is authenticated beside the token; JSON, so that no two jobs and tenants can be written alike."""
    return json.dumps(["windlass token 1", key_id, job_id, tenant]).encode()


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ConfigError(
            "principal.keys", "***", because="it needs the package cryptography: pip install 'windlass[auth]'"
        ) from error
    return AESGCM(key)
