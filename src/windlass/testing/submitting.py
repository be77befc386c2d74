"""How jobs come into a sandbox: by ``enqueue`` and its forms, and in transactions of the code under test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from windlass.features import Store
from windlass.model import Enqueued, NewJob
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.ends import EndedResult
from windlass.store.sqlite.connection import path_of
from windlass.submit.direct import Call, DirectSubmitter, DirectWaiter
from windlass.transactions.detect import async_caller
from windlass.transactions.protocols import Caller
from windlass.transactions.submitter import TransactionSubmitter

T = TypeVar("T")


class Box(Protocol):
    """The part of a sandbox that its submitters use."""

    store: Store
    url: str

    def beside_loop(self, work: Callable[[], T]) -> T:
        """Use the database, also in a thread with an event loop."""
        ...

    def note(self, jobs: Sequence[NewJob], made: Sequence[Enqueued]) -> None:
        """Remember what was submitted."""
        ...

    def run_inline(self) -> None:
        """Run what is due, if jobs are to be run at once."""
        ...

    def run_waited_for(self) -> None:
        """Run what is due, because a caller waits for a result."""
        ...


class SandboxSubmitter(DirectSubmitter):
    """Stores jobs in the sandbox."""

    def __init__(self, box: Box, call: Call) -> None:
        super().__init__(box.store, call)
        self._box = box

    def submit_group(self, entries: Sequence[CheckedJob], *, is_group: bool = True) -> list[Enqueued]:
        submit = super().submit_group
        made = self._box.beside_loop(lambda: submit(entries, is_group=is_group))
        self._box.note([entry.job for entry in entries], made)
        self._box.run_inline()
        return made

    def run_due(self) -> None:
        self._box.run_waited_for()

    def _make_waiter(self) -> DirectWaiter:
        return _SandboxWaiter(self._box, self._call, self.run_due)


class _SandboxWaiter(DirectWaiter):
    """Waits on an event loop, too."""

    def __init__(self, box: Box, call: Call, run: Callable[[], object]) -> None:
        super().__init__(box.store, call, run)
        self._box = box

    def wait(self, job_id: str, timeout: float | timedelta | None = None) -> EndedResult | None:
        wait = super().wait
        return self._box.beside_loop(lambda: wait(job_id, timeout))


class SandboxTransactions(TransactionSubmitter):
    """Stores jobs of ``enqueue_in``: in the caller's transaction where that is on the sandbox's database, else in the sandbox at once."""

    def __init__(self, box: Box, *, is_hosted: bool) -> None:
        super().__init__(box.store.db.dialect, box.store.db.clock)
        self._box = box
        self._is_hosted = is_hosted

    async def submit_async(
        self, where: Any, jobs: Sequence[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        return await async_caller(where).lend(lambda caller: self._submit(caller, jobs, notify))

    def _submit(self, caller: Caller, jobs: Sequence[NewJob], notify: bool) -> list[Enqueued]:
        return self._stored(
            caller, jobs, super()._submit, lambda: self._box.store.enqueue(jobs), jobs, notify
        )

    def _submit_group(self, caller: Caller, entries: Sequence[CheckedJob], notify: bool) -> list[Enqueued]:
        return self._stored(
            caller,
            [entry.job for entry in entries],
            super()._submit_group,
            lambda: self._box.store.enqueuer.enqueue_group(entries),
            entries,
            notify,
        )

    def _stored(
        self,
        caller: Caller,
        jobs: Sequence[NewJob],
        in_transaction: Callable[..., list[Enqueued]],
        at_once: Callable[[], list[Enqueued]],
        *arguments: Any,
    ) -> list[Enqueued]:
        if self._is_here(caller):
            made = in_transaction(caller, *arguments)
        else:
            caller.require_transaction()
            made = at_once()
        self._box.note(jobs, made)
        return made

    def _is_here(self, caller: Caller) -> bool:
        """Whether a transaction is on the sandbox's database."""
        if self._is_hosted:
            return True
        if caller.dialect != self._dialect:
            return False
        if self._dialect != "sqlite":
            return True
        rows = caller.execute("PRAGMA database_list", ()) or ()
        ours = Path(path_of(self._box.url)).resolve()
        return any(row[1] == "main" and row[2] and Path(row[2]).resolve() == ours for row in rows)
