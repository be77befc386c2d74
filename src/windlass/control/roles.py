"""Roles: what a caller of the REST API may do, as roles of its principal.

A role says which acts are possible, and the scope of an actor (control/actor.py) on which jobs: a caller with ``operate`` and no wider scope
cancels its own jobs and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from windlass.control.actor import ADMIN, ALL_JOBS, OPERATOR
from windlass.errors import ConfigError, check_names
from windlass.model.principal import Principal
from windlass.tokens.token import ApiToken


class Role(StrEnum):
    """``view``: states, times and counts. ``view-payload``: also arguments, results, outputs, messages of errors, positions and log lines.
    ``submit``: new jobs. ``operate``: cancel, retry, run now, pause. ``edit``: arguments and priorities. ``admin``: everything."""

    VIEW = "view"
    VIEW_PAYLOAD = "view-payload"
    SUBMIT = "submit"
    OPERATE = "operate"
    EDIT = "edit"
    ADMIN = "admin"


EVERY_ROLE: Final = frozenset(Role)
IMPLIED: Final[Mapping[Role, frozenset[Role]]] = {
    Role.VIEW: frozenset({Role.VIEW}),
    Role.VIEW_PAYLOAD: frozenset({Role.VIEW, Role.VIEW_PAYLOAD}),
    Role.SUBMIT: frozenset({Role.SUBMIT}),
    Role.OPERATE: frozenset({Role.VIEW, Role.OPERATE}),
    Role.EDIT: frozenset({Role.VIEW, Role.VIEW_PAYLOAD, Role.EDIT}),
    Role.ADMIN: EVERY_ROLE,
}
"""The roles that each role contains. ``edit`` shows arguments: values cannot be changed unseen."""

_PREFIX = "windlass:"
_NAMES: Final[Mapping[str, frozenset[Role]]] = {
    **{f"{_PREFIX}{role}": implied for role, implied in IMPLIED.items()},
    OPERATOR: EVERY_ROLE - {Role.ADMIN},
}


def roles_of(principal: Principal) -> frozenset[Role]:
    """What a principal may do, by its roles ``windlass:view``, ``windlass:submit`` and so on; ``windlass:operator`` is all but ``admin``."""
    return frozenset[Role]().union(*(_NAMES.get(name, frozenset()) for name in principal.roles))


def checked_roles(names: Iterable[str]) -> frozenset[Role]:
    """Roles by their names; ``ConfigError`` for a name that is not one of the six."""
    given = [names] if isinstance(names, str) else list(names)
    if not given:
        raise ConfigError("roles", "none", f"one or more of {', '.join(Role)}")
    check_names("role", given, tuple(Role))
    return frozenset(Role(name) for name in given)


def principal_of(token: ApiToken) -> Principal:
    """The principal of requests with an API token."""
    roles = {f"{_PREFIX}{role}" for role in token.roles}
    is_service = token.subject is None
    return Principal(
        f"token:{token.name}" if token.subject is None else token.subject,
        tenant=token.tenant,
        issuer=token.issuer,
        roles=frozenset({*roles, ALL_JOBS} if is_service else roles),
        token_id=token.id,
        expires_at=token.expires_at,
        is_service=is_service,
    )


assert _NAMES[ADMIN] == EVERY_ROLE
