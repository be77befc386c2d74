"""The session of a caller, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from windlass.api.access.caller import Caller


class CallerRecord(BaseModel):
    """Who the caller is, and what it may do."""

    subject: str = Field(examples=["anna"])
    tenant: str | None = None
    issuer: str | None = None
    roles: list[str] = Field(description="What the caller may do.", examples=[["submit", "view"]])
    how: str = Field(description="How the caller is known: function, bearer, session or no-auth.")
    sees: str = Field(description="Which jobs the caller sees: all, those of its tenant, or its own.")
    expires_at: datetime | None = None

    @classmethod
    def of(cls, caller: Caller, sees: str) -> Self:
        who = caller.principal
        return cls(
            subject=who.subject,
            tenant=who.tenant,
            issuer=who.issuer,
            roles=sorted(caller.roles),
            how=caller.how,
            sees=sees,
            expires_at=who.expires_at,
        )


class LoginRequest(BaseModel):
    """Begins a session: the code of a one-time link, or an API token."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    code: str | None = Field(default=None, max_length=200)
    token: str | None = Field(default=None, max_length=200)
