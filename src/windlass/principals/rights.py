"""The principal and the secrets of a running job: the part of a context that is about its rights."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import replace
from typing import Any

from windlass.errors import NoPrincipalError, NotAllowedError
from windlass.model import Captured, Flag, Lease, NewJob, Outcome, has_flag
from windlass.model.principal import ACT_FOR_OTHERS, Principal
from windlass.observe import logs
from windlass.observe.redaction import Secrets
from windlass.principals.authority import Authority
from windlass.principals.token_guard import GuardedAttemptStore, cleaned, hide_in, refuse
from windlass.store.attempt_store import AttemptStore


class HandlerRights:
    """The principal of a job, as its handler sees it."""

    _lease: Lease
    _checked: Principal | None
    _tokens: tuple[str, ...]
    _authority: Authority

    @property
    def principal(self) -> Principal | None:
        """The principal that asked for this job; None for a job without one. The first access is a read of the database.

        Where the kind says ``principal_expiry="recheck"``, it is what the application's check let pass.
        """
        if self._checked is not None:
            return self._checked
        captured = self._get_captured()
        return None if captured is None else captured.principal

    def require(self, *roles: str) -> Principal:
        """End this job, without another attempt, unless its principal has all of these roles; returns the principal."""
        principal = self.principal
        if principal is None:
            raise NoPrincipalError(f"job {self._lease.id}")
        principal.require(*roles)
        return principal

    def token(self) -> str:
        """The raw token that was kept with this job (``keep_token=True``). While the handler runs it is hidden from log lines and errors,
        and what holds it is not stored; do not keep it yourself."""
        token = self._authority.open_token(self._get_captured(), self._lease.id)
        if token not in self._tokens:
            self._tokens = (*self._tokens, token)
            logs.hide(token)
            self._on_token(token)
        return token

    async def principal_async(self) -> Principal | None:
        """``principal`` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.principal)

    async def token_async(self) -> str:
        """``token`` without blocking the event loop."""
        return await asyncio.to_thread(self.token)

    def _get_captured(self) -> Captured | None:
        """The principal as it was stored with the job."""
        raise NotImplementedError

    def _on_token(self, token: str) -> None:
        """A token is known to this process from here on."""


class Rights(HandlerRights):
    """The principal of a job, also for what surrounds the handler. Everything that a job with a principal writes passes here (``GuardedAttemptStore``)."""

    def __init__(self, lease: Lease, store: AttemptStore, authority: Authority) -> None:
        self.lease = self._lease = lease
        has_principal = has_flag(lease.flags, Flag.PRINCIPAL)
        self._store: AttemptStore = GuardedAttemptStore(store, self) if has_principal else store
        self._authority = authority
        self._captured: Captured | None = None
        self._has_captured = not has_principal
        self._checked: Principal | None = None
        self._tokens: tuple[str, ...] = ()

    @property
    def captured(self) -> Captured | None:
        """The principal as it was stored with the job."""
        return self._get_captured()

    def _get_captured(self) -> Captured | None:
        if not self._has_captured:
            self._captured = self._store.principal_of(self.lease)
            self._has_captured = True
        return self._captured

    def accept(self, principal: Principal) -> None:
        """From here on this job has the rights that a check let pass."""
        self._checked = principal

    def passed_on(self, principal: Principal | None) -> Principal | None:
        """The principal of a job that this one enqueues: by default this one's principal, and never one with more rights."""
        if principal is None:
            return self.principal
        self.refuse_more(principal)
        return principal

    def refuse_more(self, principal: Principal) -> None:
        """Raise if a principal may do more than this job's, unless that is a service whose business is to act for others."""
        mine = self.principal
        if mine is None or (mine.is_service and mine.has(ACT_FOR_OTHERS)):
            return
        if not principal.is_within(mine):
            raise NotAllowedError(
                f"job {self.lease.id} runs for {mine.subject!r} and cannot act for {principal.subject!r} with rights it does not "
                "have itself; narrow its own with ctx.principal.narrowed(...)",
                subject=mine.subject,
            )

    def inherited(self, job: NewJob) -> NewJob:
        """A job that this one enqueues, with its principal."""
        return replace(job, principal=self.passed_on(job.principal))

    def note_token(self, token: str) -> None:
        """Nothing that is recorded of this job may hold this."""
        self._tokens = (*self._tokens, token)

    @property
    def has_tokens(self) -> bool:
        """Whether this job was given a token."""
        return bool(self._tokens)

    def refuse_tokens(self, what: str, value: Any) -> None:
        """Raise if a value that is to be stored holds a token that this job was given."""
        if self._tokens:
            refuse(what, value, self._tokens)

    def forget_tokens(self) -> None:
        """The handler has ended: its log lines are written."""
        if self._tokens:
            logs.forget(*self._tokens)

    def drop_locals(self, error: BaseException) -> None:
        """Let go of the variables that an error's tracebacks keep, where a token may be among them. What is logged when they go (a task
        whose exception was never retrieved) is logged while the token is still hidden, and no reporter of errors finds it there."""
        seen: set[int] = set()
        left: list[BaseException | None] = [error] if self._tokens else []
        while left:
            if (one := left.pop()) is not None and id(one) not in seen:
                seen.add(id(one))
                traceback.clear_frames(one.__traceback__)
                left += [one.__cause__, one.__context__]

    def cleaned(self, outcome: Outcome) -> Outcome:
        """An outcome without the tokens that this job was given."""
        return cleaned(outcome, self._tokens) if self._tokens else outcome

    def hidden(self, value: Any) -> Any:
        """Text, or JSON of texts, without the tokens that this job was given."""
        return hide_in(value, Secrets(self._tokens)) if self._tokens else value
