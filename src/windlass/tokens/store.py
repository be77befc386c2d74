"""Stores, lists, revokes and verifies API tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from windlass.errors import StoreError, TokenError
from windlass.store.database import Also, Database, Row, Transaction, nothing
from windlass.store.ids import is_id, new_id
from windlass.tokens.token import ApiToken, NewApiToken, hash_of, id_of, is_hash_of, make_text

MAX_LIST = 10_000
_NO_HASH = "0" * 64


class ApiTokens:
    """The API tokens of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(
        self,
        name: str,
        *,
        roles: Sequence[str],
        created_by: str,
        lasts: float | None = None,
        subject: str | None = None,
        issuer: str | None = None,
        tenant: str | None = None,
        also: Also = nothing,
    ) -> NewApiToken | None:
        """Store a new token that ends after ``lasts`` seconds, or never; None if a token of this name is in use. ``also`` writes in the same
        transaction."""
        token_id = new_id()
        text = make_text(token_id)

        def work(tx: Transaction) -> bool:
            made = tx.run(
                "token.put",
                id=token_id,
                lasts=lasts,
                name=name,
                hash=hash_of(text),
                subject=subject,
                issuer=issuer,
                tenant=tenant,
                created_by=created_by,
                roles=json.dumps(list(roles)),
            )
            if made:
                also(tx)
            return bool(made)

        if not self._db.transact(work):
            return None
        (row,) = self._db.read("token.get", id=token_id)
        return NewApiToken(self._token(row), text)

    def list(self, limit: int = MAX_LIST) -> Sequence[ApiToken]:
        """All tokens, newest first, with those that have ended."""
        return [self._token(row) for row in self._db.read("token.list", limit=limit)]

    def find(self, name_or_id: str) -> ApiToken | None:
        """A token by its id, or by its name if it is not revoked; None if there is none."""
        token_id = name_or_id
        if not is_id(name_or_id):
            named = self._db.read("token.named", name=name_or_id)
            if not named:
                return None
            token_id = str(named[0][0])
        rows = self._db.read("token.get", id=token_id)
        return self._token(rows[0]) if rows else None

    def revoke(self, token_id: str, *, also: Also = nothing) -> bool:
        """End a token for good; False if it had been revoked. The next request with it is refused."""

        def work(tx: Transaction) -> bool:
            is_revoked = bool(tx.run("token.revoke", id=token_id))
            if is_revoked:
                also(tx)
            return is_revoked

        return self._db.transact(work)

    def verify(self, text: str) -> ApiToken:
        """The token of a text; ``TokenError`` for one that is malformed, unknown, revoked or expired. Its use is noted, at most once a minute."""
        token_id = id_of(text)
        if token_id is None:
            raise TokenError("token_malformed", "it does not have the form of an API token")
        rows = self._db.read("token.get", id=token_id)
        stored = rows[0][-2] if rows else _NO_HASH
        if not is_hash_of(stored, text) or not rows:
            raise TokenError("token_unknown", "it is not known here")
        token = self._token(rows[0])
        require_live(token)
        if rows[0][-1]:
            with suppress(StoreError):  # a request is not refused because its time cannot be noted
                self._db.run("token.use", id=token_id)
        return token

    def _token(self, row: Row) -> ApiToken:
        (
            ident,
            name,
            roles,
            subject,
            issuer,
            tenant,
            created_by,
            created,
            expires,
            used,
            revoked,
            is_expired,
        ) = row[:12]
        return ApiToken(
            id=str(ident),
            name=name,
            roles=tuple(json.loads(roles)),
            subject=subject,
            issuer=issuer,
            tenant=tenant,
            created_by=created_by,
            created_at=self._db.moment(created),
            expires_at=self._db.moment(expires),
            last_used_at=self._db.moment(used),
            revoked_at=self._db.moment(revoked),
            is_expired=bool(is_expired),
        )


def require_live(token: ApiToken) -> None:
    """Refuse a token that was revoked or has expired."""
    if token.revoked_at is not None:
        raise TokenError("token_revoked", "it was revoked")
    if token.is_expired:
        raise TokenError("token_expired", "it has expired")
