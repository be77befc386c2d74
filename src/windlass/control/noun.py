"""What the parts of the control service have in common: the store, the actor, audited acts, and async forms of their methods."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from windlass.audit.record import AuditRecord
from windlass.config import Config
from windlass.control.actor import Actor
from windlass.control.given import check_texts
from windlass.control.payload import Payload
from windlass.errors import JobNotFoundError
from windlass.features import Store
from windlass.handlers.registry import Registry
from windlass.principals.authority import Authority
from windlass.store.database import Also, Transaction
from windlass.store.ids import is_id
from windlass.submit.submitter import Submitter

if TYPE_CHECKING:
    from windlass.control.sampler import Sampler

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


class Source(Protocol):
    """The part of an app that the control service uses."""

    @property
    def store(self) -> Store: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def url(self) -> str: ...

    @property
    def config(self) -> Config: ...

    @property
    def sampler(self) -> Sampler: ...

    @property
    def authority(self) -> Authority: ...

    @property
    def submitter(self) -> Submitter: ...

    def redacted(self, value: Any) -> Any:
        """A JSON value with secrets hidden, by the built-in rules and the application's own."""
        ...

    def audited(self, record: AuditRecord) -> None:
        """Hand a stored record to the application's audit function."""
        ...


def off_loop(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The async form of a method: it runs on a thread, so that the event loop is not blocked."""

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    functools.update_wrapper(run, method)
    run.__doc__ = f"``{method.__name__}`` without blocking the event loop."
    run.__name__ = f"{method.__name__}_async"
    run.__qualname__ = f"{method.__qualname__}_async"
    return run


class Noun:
    """One part of the control service, for one actor."""

    def __init__(self, source: Source, actor: Actor) -> None:
        self._source = source
        self._actor = actor
        self._payload = Payload(actor, source.redacted, source.registry)

    @property
    def _store(self) -> Store:
        return self._source.store

    def _require_job(self, job_id: str) -> None:
        """Refuse a job outside the actor's scope, in the words in which a job that does not exist is refused."""
        scope = self._actor.scope
        if scope.is_all:
            return
        if not is_id(job_id) or not self._store.db.read("principal.sees", id=job_id, **scope.parameters()):
            raise JobNotFoundError(job_id)

    def _record(
        self,
        act: str,
        target: str,
        name: str,
        reason: str | None = None,
        *,
        before: Any = None,
        after: Any = None,
    ) -> AuditRecord:
        check_texts(reason=reason)
        who = self._actor.principal
        return AuditRecord(
            actor=self._actor.name,
            act=act,
            target=target,
            name=name,
            reason=reason,
            before=self._source.redacted(before),
            after=self._source.redacted(after),
            subject=None if who is None else who.subject,
            issuer=None if who is None else who.issuer,
            tenant=None if who is None else who.tenant,
        )

    def _audited(self, record: AuditRecord, work: Callable[[Also], T]) -> T:
        """Do an act with its record in one transaction; ``work`` passes on what has to be written beside the act, if it changed something."""
        written: list[AuditRecord] = []

        def also(tx: Transaction) -> None:
            self._store.audit.write(tx, record)
            written[:] = [record]  # a transaction may be repeated

        result = work(also)
        for one in written:
            self._source.audited(one)
        return result
