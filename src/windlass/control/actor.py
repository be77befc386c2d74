"""Who asks: the actor of every call of the control service, and which jobs the actor may see and act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from windlass.errors import NotAllowedError
from windlass.model.principal import Principal

OPERATOR: Final = "windlass:operator"
"""The role of people who see and act on all jobs of their tenant; without a tenant, on everything."""
ADMIN: Final = "windlass:admin"
"""The role of people who see and act on everything, whatever their tenant."""
ALL_JOBS: Final = "windlass:all-jobs"
"""The role of people and services who see all jobs of their tenant; without a tenant, everything. It allows no act by itself."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The jobs that an actor sees: ``all``, those of its ``tenant``, or its ``own``."""

    sees: str
    subject: str | None = None
    issuer: str | None = None
    tenant: str | None = None

    @property
    def is_all(self) -> bool:
        return self.sees == "all"

    def parameters(self) -> Mapping[str, str | None]:
        """The parameters of the SQL fragment ``in_scope``."""
        return {
            "sees": self.sees,
            "subject": self.subject,
            "issuer": self.issuer,
            "tenant": self.tenant,
        }


EVERYTHING = Scope("all")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. Without a principal it is the application itself or the operating system's user, who see all jobs; with ``hides_secrets`` a
    person, who gets arguments, results and errors with secrets hidden, as a principal does. With ``hides_payload`` they are not shown at all."""

    name: str
    principal: Principal | None = None
    hides_secrets: bool = False
    hides_payload: bool = False

    @classmethod
    def of(cls, principal: Principal, *, hides_payload: bool = False) -> Actor:
        return cls(principal.subject, principal, hides_payload=hides_payload)

    @property
    def scope(self) -> Scope:
        """Which jobs this actor may see."""
        who = self.principal
        if who is None or ADMIN in who.roles:
            return EVERYTHING
        if not who.roles.isdisjoint((OPERATOR, ALL_JOBS)):
            return EVERYTHING if who.tenant is None else Scope("tenant", tenant=who.tenant)
        return Scope("own", who.subject, who.issuer, who.tenant)

    def require_all(self, what: str) -> None:
        """Refuse an act that concerns all jobs to an actor who may not see all jobs."""
        if not self.scope.is_all:
            raise NotAllowedError(
                f"{self.name} may not {what}: it concerns jobs of all users, and needs the role {ADMIN}, or {OPERATOR} or {ALL_JOBS} without a tenant",
                subject=self.name,
                missing=[OPERATOR],
            )

    def require_admin(self, what: str) -> None:
        """Refuse an act that gives rights to others to a principal without the role of administrators."""
        if self.principal is not None and ADMIN not in self.principal.roles:
            raise NotAllowedError(
                f"{self.name} may not {what}: it needs the role {ADMIN}", subject=self.name, missing=[ADMIN]
            )


APPLICATION = Actor("app")
"""The actor of calls from code that name no principal."""
