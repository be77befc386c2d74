"""The dependency that every route has: it returns the caller, or refuses the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.dependencies.models import Dependant

from windlass.api.access.access import REALM
from windlass.api.access.caller import Caller
from windlass.api.problems.problem import ProblemError


def allowed(role: str | None) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller, which must have the role (None: any caller will do); 401 without a caller, 403 without the role."""

    async def caller(request: Request) -> Caller:
        return checked_caller(request, role)

    caller.role = role  # type: ignore[attr-defined]
    return caller


def checked_caller(request: Request, role: str | None) -> Caller:
    """The caller of a request, which must have the role."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise ProblemError("unauthenticated", headers={"WWW-Authenticate": f'Bearer realm="{REALM}"'})
    if role is not None and role not in found.roles:
        raise ProblemError("forbidden", f"this needs the role {role}, which {found.principal.subject} lacks")
    return found


def roles_needed(dependant: Dependant) -> list[str | None]:
    """The roles that a route needs; empty for a route that is open to callers without credentials."""
    own: list[str | None] = [getattr(dependant.call, "role")] if hasattr(dependant.call, "role") else []  # noqa: B009  mypy
    return own + [role for part in dependant.dependencies for role in roles_needed(part)]
