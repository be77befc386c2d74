"""The caller of a request: who it is, with which roles, and how it was found out."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Self

from windlass.app.app import App
from windlass.control.actor import ADMIN, Actor
from windlass.control.roles import Role, roles_of
from windlass.control.service import Control
from windlass.model.principal import Principal

LOCAL: Final = Principal("local", issuer="windlass", roles=frozenset({ADMIN}))
"""The person at this machine, who can read the output of the server, or reach it where no credentials are asked for."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. ``how`` says how that was found out: ``function``, ``bearer``, ``session`` or ``no-auth``."""

    principal: Principal
    roles: AbstractSet[str]
    how: str
    _controls: dict[App, Control] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, principal: Principal, how: str) -> Self:
        """The caller that a principal is, with the roles that it has."""
        return cls(principal, roles_of(principal), how)

    def control(self, app: App) -> Control:
        """The control service acting as this caller; without ``view-payload`` it shows no arguments, results, outputs, errors' messages, positions
        and log lines."""
        found = self._controls.get(app)
        if found is None:
            who = Actor.of(self.principal, hides_payload=Role.VIEW_PAYLOAD not in self.roles)
            found = self._controls[app] = app.acting_as(who)
        return found
