"""An API token: what is stored of it, and its text.

The text is ``wl_``, the 32 hexadecimal digits of its id, ``_`` and 256 random bits in base64url. The id finds the row; the row has the SHA-256
of the whole text. A random text of this length needs no slow hash: it cannot be guessed, and a hash of it cannot be turned back.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

PREFIX: Final = "wl_"
_TEXT = re.compile(r"wl_([0-9a-f]{32})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A token as it is stored. With a ``subject`` it acts for this person, who sees the person's own jobs; without one it is a service of its
    own, and sees all jobs of its ``tenant``, or all jobs if it has none."""

    id: str
    name: str
    roles: Sequence[str]
    subject: str | None
    issuer: str | None
    tenant: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    is_expired: bool

    @property
    def state(self) -> str:
        """``live``, ``expired`` or ``revoked``."""
        return "revoked" if self.revoked_at is not None else "expired" if self.is_expired else "live"


@dataclass(frozen=True, slots=True)
class NewApiToken:
    """A token that was just made. ``text`` is what clients send; it is stored nowhere and cannot be read again."""

    token: ApiToken
    text: str

    def __repr__(self) -> str:
        return f"<new API token {self.token.name!r}>"


def make_text(token_id: str) -> str:
    """The text of a new token."""
    return f"{PREFIX}{uuid.UUID(token_id).hex}_{secrets.token_urlsafe(32)}"


def id_of(text: str) -> str | None:
    """The id of the token that a text is; None for a text of another form."""
    found = _TEXT.fullmatch(text)
    return None if found is None else str(uuid.UUID(found[1]))


def hash_of(text: str) -> str:
    """The stored hash of a token's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_hash_of(stored: str, text: str) -> bool:
    """Whether a stored hash is that of a text; takes the same time for every wrong text."""
    return hmac.compare_digest(stored, hash_of(text))
