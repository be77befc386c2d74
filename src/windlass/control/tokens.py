"""API tokens: made, listed and revoked by administrators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from windlass.control.noun import Noun, off_loop
from windlass.control.roles import Role, checked_roles
from windlass.errors import ConfigError
from windlass.model.principal import Principal
from windlass.tokens.token import ApiToken, NewApiToken

USUAL_LIFE = timedelta(days=90)
LONGEST_LIFE = timedelta(days=36_500)
MAX_NAME = 100


class TokenControl(Noun):
    """Makes, lists and revokes API tokens. For the application itself and for people with the role ``windlass:admin``."""

    def create(
        self,
        name: str,
        roles: Iterable[str],
        *,
        lasts: timedelta | None = USUAL_LIFE,
        subject: str | None = None,
        issuer: str | None = None,
        tenant: str | None = None,
        reason: str | None = None,
    ) -> NewApiToken:
        """Make a token with some of the roles view, view-payload, submit, operate, edit and admin. The ``text`` of the result is what clients send;
        it can be read only now.

        With a ``subject`` (and ``issuer`` and ``tenant``, as in the person's principal) the token acts for that person and sees the person's jobs.
        Without one it is a service of its own: it sees all jobs of its ``tenant``, or all jobs. ``lasts`` is how long it can be used; None is
        for ever.
        """
        self._actor.require_admin("make an API token")
        wanted = sorted(checked_roles(roles))
        _check(name, lasts, subject, issuer, tenant)
        if Role.ADMIN in wanted and tenant is not None:
            raise ConfigError(
                "tenant", tenant, because="the role admin is not limited to a tenant; leave one of them out"
            )
        facts = {
            "roles": wanted,
            "subject": subject,
            "issuer": issuer,
            "tenant": tenant,
            "lasts": None if lasts is None else str(lasts),
        }
        record = self._record("token.create", "token", name, reason, after=facts)
        made = self._audited(
            record,
            lambda also: self._store.tokens.create(
                name,
                roles=wanted,
                created_by=self._actor.name,
                lasts=None if lasts is None else lasts.total_seconds(),
                subject=subject,
                issuer=issuer,
                tenant=tenant,
                also=also,
            ),
        )
        if made is None:
            raise ConfigError(
                "name", name, because="a token of this name is in use; revoke it first, or take another name"
            )
        return made

    def list(self) -> Sequence[ApiToken]:
        """All tokens, newest first, with those that have ended. Their texts are not stored."""
        self._actor.require_admin("list API tokens")
        return self._store.tokens.list()

    def revoke(self, name_or_id: str, reason: str | None = None) -> bool:
        """End a token for good: the next request with it is refused. False if it had been revoked; ``ConfigError`` if there is none."""
        self._actor.require_admin("revoke an API token")
        token = self._store.tokens.find(name_or_id)
        if token is None:
            raise ConfigError(
                "token",
                name_or_id,
                "the name of a token in use, or the id of a token; `windlass token ls` lists them",
            )
        record = self._record("token.revoke", "token", token.name, reason, before={"id": token.id})
        return self._audited(record, lambda also: self._store.tokens.revoke(token.id, also=also))

    create_async = off_loop(create)
    list_async = off_loop(list)
    revoke_async = off_loop(revoke)


def _check(
    name: str, lasts: timedelta | None, subject: str | None, issuer: str | None, tenant: str | None
) -> None:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise ConfigError("name", name, f"1 to {MAX_NAME} printable characters")
    if lasts is not None and not timedelta(0) < lasts <= LONGEST_LIFE:
        raise ConfigError("lasts", lasts, "a span of time of at most a hundred years, or None for ever")
    if issuer is not None and subject is None:
        raise ConfigError(
            "issuer", issuer, because="an issuer names who knows the subject; give both or none"
        )
    Principal("token" if subject is None else subject, issuer=issuer, tenant=tenant)
