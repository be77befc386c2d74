"""The session of a caller, as JSON."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from windlass.api.access.caller import Caller
from windlass.app.app import App
from windlass.urls import database_name

_STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


class CallerRecord(BaseModel):
    """Who the caller is, and what it may do."""

    subject: str = Field(examples=["anna"])
    tenant: str | None = None
    issuer: str | None = None
    roles: list[str] = Field(description="What the caller may do.", examples=[["submit", "view"]])
    how: str = Field(description="How the caller is known: function, bearer, session or no-auth.")
    sees: str = Field(description="Which jobs the caller sees: all, those of its tenant, or its own.")
    expires_at: datetime | None = None
    version: str = Field(description="The release of Windlass that serves this API.", examples=["0.1.0"])
    store: str = Field(description="SQLite or PostgreSQL.")
    environment: str | None = Field(
        default=None,
        description="The name of the database, for callers who see all jobs: a test system is not taken for production.",
        examples=["shop"],
    )

    @classmethod
    def of(cls, caller: Caller, app: App) -> Self:
        who, scope = caller.principal, caller.control(app).actor.scope
        name = database_name(str(app.store.options.get("url") or "")) if scope.is_all else ""
        return cls(
            version=version("windlass"),
            store=_STORES.get(app.store.db.dialect, app.store.db.dialect),
            environment=name or None,
            subject=who.subject,
            tenant=who.tenant,
            issuer=who.issuer,
            roles=sorted(caller.roles),
            how=caller.how,
            sees=scope.sees,
            expires_at=who.expires_at,
        )


class LoginRequest(BaseModel):
    """Begins a session: the code of a one-time link, or an API token."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    code: str | None = Field(default=None, max_length=200)
    token: str | None = Field(default=None, max_length=200)
