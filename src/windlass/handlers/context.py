"""The context of a handler: its job, and the calls it may make while it runs.

A context belongs to one attempt. Its writes are fenced by the attempt's lease: once the lease is lost they raise ``LeaseLost`` and
change nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter

from windlass.errors import PayloadError
from windlass.handlers.carried import Carried
from windlass.handlers.child_jobs import completed_request
from windlass.handlers.chunk_defaults import ChunkDefaults
from windlass.handlers.chunks import Chunks
from windlass.handlers.parents import Parents, TypedKind, parents_of
from windlass.handlers.registry import Phase
from windlass.handlers.stopping import Stopping
from windlass.handlers.submit_hooks import EnqueueRule
from windlass.handlers.taken_over import inherit
from windlass.handlers.transaction import JobTransaction, Opener
from windlass.model import (
    Advanced,
    Completed,
    Enqueued,
    Json,
    Lease,
    NewJob,
    Output,
    Progress,
    Verdict,
    wrap_position,
)
from windlass.model.principal import Expiry, Principal
from windlass.model.retry import RetryPolicy
from windlass.model.signals import BadResult
from windlass.principals.rights import HandlerRights
from windlass.store.attempt_store import AttemptStore
from windlass.transactions.detect import async_caller, sync_caller
from windlass.transactions.protocols import Caller
from windlass.transactions.transaction import CallerTransaction, join

T = TypeVar("T")


class Context(Stopping, Carried, HandlerRights):
    """The job that a handler runs, and the calls it may make while it runs."""

    _began: tuple[float, int] | None = None
    """When this attempt's progress was first read, and how far the job was then; the class's own value until then."""

    # What the engine's subclass (``AttemptContext``) sets.
    _phase: Phase
    _store: AttemptStore
    _touch: Callable[[], None]
    _on_duplicate: Callable[[str], None]
    _chunk_defaults: ChunkDefaults
    _outputs: Sequence[Output] | None = None

    # ------------------------------------------------------------------ identity

    @property
    def job_id(self) -> str:
        return self._lease.id

    @property
    def kind(self) -> str:
        return self._lease.kind

    @property
    def phase(self) -> str:
        return self._phase.label

    @property
    def attempt(self) -> int:
        """Which execution of this phase this is: 1, 2, …"""
        return self._lease.attempt

    @property
    def is_recovered(self) -> bool:
        """Whether an instance died with this job before."""
        return self._lease.is_recovered

    @property
    def max_attempts(self) -> int:
        return self._lease.max_attempts

    @property
    def time_limit(self) -> float | None:
        """Seconds that this attempt may run without a sign of life; None is no limit."""
        return self._phase.timeout

    @property
    def correlation_id(self) -> str:
        return self._lease.correlation_id

    @property
    def key(self) -> str:
        """A key that is the same on every attempt of this phase: give it to external systems that drop repeats."""
        return f"{self._lease.id}:{self._lease.generation}:{self._lease.phase}"

    def recheck(self) -> Principal | None:
        """Have the application's check made now, in the middle of long work; raises if it says no."""
        self._authority.admit(self._attempt, Expiry.RECHECK)
        return self.principal

    async def recheck_async(self) -> Principal | None:
        """``recheck`` without blocking the event loop."""
        await self._authority.admit_async(self._attempt, Expiry.RECHECK)
        return self.principal

    # ------------------------------------------------------------------ progress

    def alive(self) -> None:
        """Show a sign of life: the time limit counts from here."""
        self._touch()

    def checkpoint(self, position: Any = None, *, done: int = 0, total: int | None = None) -> None:
        """Save where the job would go on, and how far it is. Durable when this returns; raises ``Stopped`` if it should stop."""
        self._touch()
        position = self._paced(position, done)
        if self._store.checkpoint(self._lease, done=done, total=total, position=position):
            self._ask_to_stop()
        self.check_stop()

    def resume(self) -> Progress | None:
        """The position that an earlier attempt saved; None at the beginning."""
        saved = self._store.resume(self._lease)
        self._began = time.monotonic(), saved.done if saved else 0
        return saved

    def _paced(self, position: Any, done: int) -> Any:
        """A position with the records a second since ``resume``, or since the first checkpoint of this attempt."""
        now = time.monotonic()
        if self._began is None:
            self._began = now, done
        then, first = self._began
        return wrap_position(
            position, rate=round((done - first) / (now - then), 3) if done > first and now > then else None
        )

    def chunks(
        self,
        *,
        total: int | None = None,
        size: int | None = None,
        retry: RetryPolicy | None = None,
        skip_limit: int = 0,
        cleanup: Callable[[], Any] | None = None,
    ) -> Chunks:
        """Work through many records in slices that are committed one by one; see chunks.py.

        With ``total`` chunks are numbered (``offset``, ``limit``); without it they follow a key (``after``). A chunk that raises comes
        again by ``retry`` (the phase's ``chunk_retry``). Without ``size`` and policies the settings ``background.chunk`` apply. ``skip_limit`` bad records may be left out with ``chunk.skip``. ``cleanup``
        is called once when the loop ends early because the job should stop: at a chunk's edge, inside a chunk (after it was rolled back)
        or while a chunk waits to be tried again. In an async handler it may be a coroutine function.

        A phase has one loop: its place is the job's checkpoint, which a second one would take for its own.
        """
        usual = self._chunk_defaults
        policy = retry or self._phase.chunk_retry or usual.retry
        size = usual.size if size is None else size
        return Chunks(
            self._attempt, total=total, size=size, retry=policy, skip_limit=skip_limit, cleanup=cleanup
        )

    def outputs(self) -> list[Output]:
        """All outputs this job has so far."""
        return list(self._store.outputs_of(self._lease))

    # ------------------------------------------------------------------ outputs

    @overload
    def output(self, phase: str, as_type: type[T], *, name: str = "") -> T: ...

    @overload
    def output(self, phase: str, as_type: None = None, *, name: str = "") -> Any: ...

    def output(self, phase: str, as_type: Any = None, *, name: str = "") -> Any:
        """The output of an earlier phase of this job, as the type given."""
        if self._outputs is None:
            self._outputs = self._store.outputs_of(self._lease)
        wanted = f"{self._lease.kind}:{phase}"
        for item in self._outputs:
            if item.phase in (phase, wanted) and item.name == name:
                return item.value if as_type is None else TypeAdapter(as_type).validate_python(item.value)
        have = ", ".join(item.phase.partition(":")[2] or item.phase for item in self._outputs) or "none"
        named = f"output {name!r}" if name else "output"
        raise LookupError(
            f"job {self._lease.id} has no {named} of the phase {phase!r}; phases with outputs: {have}"
        )

    def put_output(self, name: str, value: Any) -> Output:
        """Store a named output, once: the first value stands, also across attempts."""
        output = self._store.put_output(self._lease, self._phase.output_json(value), name=name)
        if not output.created:
            self._on_duplicate(name)
        return output

    # ------------------------------------------------------------------ parents

    @overload
    def parents(self, of: None = None) -> Parents[Any]: ...

    @overload
    def parents(self, of: type[T]) -> Parents[T]: ...

    @overload
    def parents(self, of: TypedKind[T]) -> Parents[T]: ...

    @overload
    def parents(self, of: str) -> Parents[Any]: ...

    def parents(self, of: Any = None) -> Parents[Any]:
        """The jobs that this one waited for (``after``, a batch, a chain), read page by page: ``for parent in ctx.parents()``, in a coroutine
        ``async for``.

        ``of`` is a kind (a job, a pipeline or a name), for the parents of that kind with their results as its handler returned them; or a
        type, for all parents with their results as that type. Without it results are plain JSON values.
        """
        return parents_of(self._lease, self._store, of, self._phase.registry)

    # ------------------------------------------------------------------ the same for coroutines: in a thread, off the event loop

    async def checkpoint_async(
        self, position: Any = None, *, done: int = 0, total: int | None = None
    ) -> None:
        """``checkpoint`` without blocking the event loop."""
        await asyncio.to_thread(self.checkpoint, position, done=done, total=total)

    async def resume_async(self) -> Progress | None:
        """``resume`` without blocking the event loop."""
        return await asyncio.to_thread(self.resume)

    @overload
    async def output_async(self, phase: str, as_type: type[T], *, name: str = "") -> T: ...

    @overload
    async def output_async(self, phase: str, as_type: None = None, *, name: str = "") -> Any: ...

    async def output_async(self, phase: str, as_type: Any = None, *, name: str = "") -> Any:
        """``output`` without blocking the event loop."""
        return await asyncio.to_thread(self.output, phase, as_type, name=name)

    async def put_output_async(self, name: str, value: Any) -> Output:
        """``put_output`` without blocking the event loop."""
        return await asyncio.to_thread(self.put_output, name, value)

    async def enqueue_async(self, job: NewJob) -> Enqueued:
        """``enqueue`` without blocking the event loop."""
        rule = self._enqueue_rule
        if rule is None:
            return await asyncio.to_thread(self.enqueue, job)
        request = await asyncio.to_thread(self._requested, job)
        made = await rule.deferred_async([request])
        return (await asyncio.to_thread(self._store.enqueue, [request]) if made is None else made)[0]

    # ------------------------------------------------------------------ effects

    def transaction(self, *, ends: bool = True) -> JobTransaction:
        """A transaction for the handler's own writes.

        Leaving the block commits them together with the end of this phase (``tx.complete(result)`` gives the result; with
        ``ends=False`` the job goes on after the commit). An exception, or a lost lease, rolls everything back.
        """
        return JobTransaction(
            self._open,
            self._phase,
            self._lease,
            ends=ends,
            on_end=self._on_end,
            on_cancel=self._ask_to_stop,
            touch=self._touch,
            on_duplicate=self._on_duplicate,
            filled=self._filled,
        )

    def complete_in(self, where: Any, result: Any = None) -> None:
        """End this phase with a result in a transaction of the handler's own: both are committed, or neither.

        ``where`` is what ``enqueue_in`` takes; the handler commits, soon and before it returns. From here on the job's row is locked,
        and PostgreSQL ends the transaction when it idles longer than the lease lasts. ``LeaseLost`` says to roll back.
        """
        self._end_in(sync_caller(where), result)

    async def complete_in_async(self, where: Any, result: Any = None) -> None:
        """The same for an async connection or session."""
        await async_caller(where).lend(lambda caller: self._end_in(caller, result))

    def checkpoint_in(
        self, where: Any, position: Any = None, *, done: int = 0, total: int | None = None
    ) -> None:
        """Save where the job would go on in a transaction of the handler's own; the job goes on. ``done`` must grow each time.

        Where the job should stop, ``should_stop`` says so from here on; commit first.
        """
        self._checkpoint_in(sync_caller(where), position, done, total)

    async def checkpoint_in_async(
        self, where: Any, position: Any = None, *, done: int = 0, total: int | None = None
    ) -> None:
        """The same for an async connection or session."""
        await async_caller(where).lend(lambda caller: self._checkpoint_in(caller, position, done, total))

    def _end_in(self, caller: Caller, result: Any) -> None:
        outcome = _outcome_of(self._phase, self._lease, result)
        fence = self._store.fence(self._lease)
        fence.end(self._joined(caller, fence), outcome)
        self._on_end_in(result)

    def _checkpoint_in(self, caller: Caller, position: Any, done: int, total: int | None) -> None:
        self._touch()
        fence = self._store.fence(self._lease)
        position = self._paced(position, done)
        if fence.checkpoint(self._joined(caller, fence), done=done, total=total, position=position):
            self._ask_to_stop()

    def _joined(self, caller: Caller, fence: Any) -> CallerTransaction:
        """The handler's transaction, with all that its session kept back sent before the fence."""
        tx = join(caller, fence.dialect, fence.clock)
        caller.flush()
        return tx

    def enqueue(self, job: NewJob) -> Enqueued:
        """Enqueue another job, of a kind of the same app and checked as by the kind's own ``enqueue``; with this one's correlation id,
        unless it brings its own."""
        request, rule = self._requested(job), self._enqueue_rule
        made = None if rule is None else rule.deferred([request])
        return (self._store.enqueue([request]) if made is None else made)[0]

    def _requested(self, job: NewJob) -> NewJob:
        return inherit(self._filled(job), self._lease)

    @property
    def _enqueue_rule(self) -> EnqueueRule | None:
        registry = self._phase.registry
        return None if registry is None else registry.enqueue_rule

    def _filled(self, job: NewJob) -> NewJob:
        return completed_request(job, self._phase, self._authority)

    @property
    def _open(self) -> Opener:
        return self._store.transaction

    @property
    def _attempt(self) -> Any:
        """This object as the engine knows it."""
        return self

    def _on_end(self, result: Any, verdict: Verdict) -> None:
        """A transaction of the handler has ended the job with this result."""
        raise NotImplementedError

    def _on_end_in(self, result: Any) -> None:
        """A transaction that the handler opened itself has the job's end in it."""
        raise NotImplementedError


def _outcome_of(phase: Phase, lease: Lease, value: Any) -> Completed | Advanced:
    """The outcome of a phase that ends with this value."""
    if value is None and phase.following is None:
        return phase.ended(lease, None)
    try:
        return phase.ended(lease, Json(phase.signature.encode_result(value)))
    except PayloadError as error:
        raise BadResult(str(error)) from error
