"""``with ctx.transaction() as tx``: the handler's writes and its job's next state in one commit, for sync and async handlers.

A sync handler uses it as a context manager and writes through ``tx.connection``. An async handler uses ``async with`` and
``await tx.execute(...)``: the driver is synchronous, so everything runs on one thread of the transaction's own, off the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from windlass.errors import PayloadError
from windlass.handlers.own_thread import OwnThread
from windlass.handlers.registry import Phase
from windlass.handlers.taken_over import inherit
from windlass.model import Enqueued, Json, Lease, NewJob, Output, Verdict
from windlass.model.signals import BadResult
from windlass.store.jobs.checked import CheckedJob

T = TypeVar("T")
Opener = Callable[[Lease], Any]
_NOTHING: Any = object()


class JobTransaction:
    """See ``Context.transaction``."""

    def __init__(
        self,
        open_effect: Opener,
        phase: Phase,
        lease: Lease,
        *,
        ends: bool,
        on_end: Callable[[Any, Verdict], None],
        on_cancel: Callable[[], None] = lambda: None,
        touch: Callable[[], None] = lambda: None,
        on_duplicate: Callable[[str], None] = lambda name: None,
        filled: Callable[[NewJob], NewJob] = lambda job: job,
    ) -> None:
        self._effect = open_effect(lease)
        self._lease = lease
        self._phase = phase
        self._ends = ends
        self._on_end = on_end
        self._on_cancel = on_cancel
        self._touch = touch
        self._on_duplicate = on_duplicate
        self._filled = filled
        self._result: Any = _NOTHING
        self._thread, self._is_shared = OwnThread(), False
        self._is_open = False

    @property
    def connection(self) -> Any:
        """The driver's own connection (psycopg or sqlite3), inside the transaction."""
        return self._effect.connection

    def complete(self, result: Any = None) -> None:
        """End this phase with a result when the block is left."""
        self._result = result
        self._ends = True

    def enqueue(self, job: NewJob) -> Enqueued:
        """Enqueue a job that exists if and only if this transaction commits; of a kind of the same app and checked as by the kind's own
        ``enqueue``, with this one's correlation id, unless it brings its own."""
        return self.enqueue_checked(self._filled(job))

    def enqueue_checked(self, job: NewJob) -> Enqueued:
        """Enqueue a job that its kind has checked already."""
        made: list[Enqueued] = self._effect.enqueue([inherit(job, self._lease)])
        return made[0]

    def enqueue_group(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        """Enqueue the jobs of a batch or a chain, which were checked already."""
        made: list[Enqueued] = self._effect.enqueue_group(entries)
        return made

    def put_output(self, name: str, value: Any) -> Output:
        """Store a named output with this transaction."""
        put: Output = self._effect.put_output(self._phase.output_json(value), name=name)
        if not put.created:
            self._on_duplicate(name)
        return put

    def checkpoint(
        self, position: Any = None, *, done: int = 0, total: int | None = None, must_go_on: bool = True
    ) -> None:
        """Save where the job would go on when this transaction commits; the job goes on. A sign of life. ``must_go_on=False`` is for
        a step that had no record: ``done`` may then be what it was."""
        self._touch()
        self._ends = False
        self._effect.checkpoint(done=done, total=total, position=position, must_go_on=must_go_on)

    # ------------------------------------------------------------------ sync handlers

    def __enter__(self) -> Self:
        self._effect.__enter__()
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self._ends:
            try:
                self._decide()
            except BaseException as refused:
                self._effect.__exit__(type(refused), refused, refused.__traceback__)
                raise
        self._effect.__exit__(kind, error, traceback)
        if error is None and self._ends:
            verdict = self._effect.verdict or Verdict.RECORDED
            self._on_end(None if self._result is _NOTHING else self._result, verdict)
        elif error is None and self._effect.cancel_asked:
            self._on_cancel()

    def _decide(self) -> None:
        value = None if self._result is _NOTHING else self._result
        following = self._phase.following
        if following is not None:
            attempts, route = following.retry.attempts, self._phase.route
            self._effect.advance(following.name, self._encoded(value), max_attempts=attempts, route=route)
        else:
            self._effect.complete(None if value is None else self._encoded(value), route=self._phase.route)

    def _encoded(self, value: Any) -> Json:
        try:
            return Json(self._phase.signature.encode_result(value))
        except PayloadError as error:
            raise BadResult(str(error)) from error

    # ------------------------------------------------------------------ async handlers

    def announce(self, *, blocks: bool = False) -> None:
        """Say in the handler's context that the transaction is about to begin, on a thread of its own."""
        self._effect.announce(blocks=blocks)

    async def __aenter__(self) -> Self:
        self.announce()
        try:
            await self.run(self.__enter__)
        except BaseException as error:
            # Cancelled while it waits to begin: it begins nevertheless, and must be ended here.
            try:
                self._thread.submit(self._abandon, error)
            except RuntimeError:  # no thread could be started, so it has not begun either
                self._effect.withdraw()
            self.dismiss()
            raise
        return self

    def on_own_thread(self, function: Callable[[], T]) -> T:
        """Run something on the transaction's own thread, and wait for it."""
        return self._thread.wait_for(function)

    def share(self, thread: OwnThread) -> None:
        """Use a thread of the caller, who lets it go."""
        self._thread, self._is_shared = thread, True

    def dismiss(self) -> None:
        """Let the transaction's own thread go, when it has done what it was given."""
        if not self._is_shared:
            self._thread.dismiss()

    def _abandon(self, error: BaseException) -> None:
        if self._is_open:
            with suppress(BaseException):
                self.__exit__(type(error), error, None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.run(self.__exit__, kind, error, traceback)
        finally:
            self.dismiss()

    async def execute(self, query: Any, parameters: Any = ()) -> Any:
        """Run one statement on the transaction's connection, off the event loop; returns the driver's cursor."""
        return await self.run(lambda: self.connection.execute(query, parameters))

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function that uses ``connection`` off the event loop, on the transaction's own thread."""
        return await self._thread.run(function, *arguments)
