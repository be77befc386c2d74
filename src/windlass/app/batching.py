"""``app.batch`` and ``app.chain``; what they need is loaded when they are first called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.model import DependencyPolicy

if TYPE_CHECKING:
    from windlass.app.batches import Batch, Chain
    from windlass.app.parts import AppParts
    from windlass.store.jobs.checked import CheckedJob
    from windlass.submit.groups import Member
    from windlass.submit.request import Request

R = TypeVar("R")


class Batching:
    """The part of an app that stores batches and chains."""

    parts: AppParts

    def batch(self, requests: Iterable[Member], *, then: Request[Any, R]) -> Batch[R]:
        """Submit jobs, and one that runs once when all of them have ended: completed, failed or cancelled. All are stored, or none.

        ``then`` reads what the members left with ``ctx.parents()``. With no members it runs at once. A member whose unique key finds a job that
        exists is that job; a member may also be given as a job that exists (an id, or what ``enqueue`` returned).
        """
        from windlass.app import batches

        home = self.parts.serving()
        jobs, members = _batch_jobs(home, requests, then)
        submitter = home.submitter
        return batches.stored_batch(submitter, home, members, jobs, submitter.submit_group(jobs))

    async def batch_async(self, requests: Iterable[Member], *, then: Request[Any, R]) -> Batch[R]:
        """``batch`` from a coroutine, without blocking its event loop."""
        from windlass.app import batches

        home = self.parts.serving()
        jobs, members = _batch_jobs(home, requests, then)
        submitter = home.submitter
        return batches.stored_batch(submitter, home, members, jobs, await submitter.submit_group_async(jobs))

    def batch_in(
        self, where: Any, /, requests: Iterable[Member], *, then: Request[Any, R], notify: bool = True
    ) -> Batch[R]:
        """``batch`` in the caller's own transaction: the jobs exist if and only if it commits; ``where`` is what ``enqueue_in`` takes."""
        from windlass.app import batches

        home = self.parts.serving()
        jobs, members = _batch_jobs(home, requests, then)
        return batches.stored_batch(home, home, members, jobs, batches.submit_in(home, where, jobs, notify))

    async def batch_in_async(
        self, where: Any, /, requests: Iterable[Member], *, then: Request[Any, R], notify: bool = True
    ) -> Batch[R]:
        """``batch_in`` for an async connection or session."""
        from windlass.app import batches

        home = self.parts.serving()
        jobs, members = _batch_jobs(home, requests, then)
        return batches.stored_batch(
            home, home, members, jobs, await batches.submit_in_async(home, where, jobs, notify)
        )

    def chain(self, *requests: Request[Any, Any], policy: str = DependencyPolicy.CANCEL) -> Chain:
        """Submit jobs of which each runs when the one before it has completed, and reads its result with ``ctx.parents()``. All are stored,
        or none.

        ``policy`` is for a job that fails or is cancelled: the jobs behind it are cancelled (``cancel``), wait until it is retried by hand
        and completes (``wait``), or run all the same (``run``).
        """
        from windlass.app import batches

        home = self.parts.serving()
        submitter = home.submitter
        jobs = _chain_jobs(home, requests, policy)
        return batches.stored_chain(submitter, home, submitter.submit_group(jobs))

    async def chain_async(self, *requests: Request[Any, Any], policy: str = DependencyPolicy.CANCEL) -> Chain:
        """``chain`` from a coroutine, without blocking its event loop."""
        from windlass.app import batches

        home = self.parts.serving()
        jobs = _chain_jobs(home, requests, policy)
        submitter = home.submitter
        return batches.stored_chain(submitter, home, await submitter.submit_group_async(jobs))

    def chain_in(
        self,
        where: Any,
        /,
        *requests: Request[Any, Any],
        policy: str = DependencyPolicy.CANCEL,
        notify: bool = True,
    ) -> Chain:
        """``chain`` in the caller's own transaction: the jobs exist if and only if it commits; ``where`` is what ``enqueue_in`` takes."""
        from windlass.app import batches

        home = self.parts.serving()
        return batches.stored_chain(
            home,
            home,
            batches.submit_in(home, where, _chain_jobs(home, requests, policy), notify),
        )

    async def chain_in_async(
        self,
        where: Any,
        /,
        *requests: Request[Any, Any],
        policy: str = DependencyPolicy.CANCEL,
        notify: bool = True,
    ) -> Chain:
        """``chain_in`` for an async connection or session."""
        from windlass.app import batches

        home = self.parts.serving()
        jobs = _chain_jobs(home, requests, policy)
        return batches.stored_chain(home, home, await batches.submit_in_async(home, where, jobs, notify))


def _batch_jobs(
    home: AppParts, requests: Iterable[Member], then: Request[Any, Any]
) -> tuple[list[CheckedJob], list[str]]:
    from windlass.submit.groups import batch_jobs

    return batch_jobs(requests, then, home.authority, home.registry)


def _chain_jobs(home: AppParts, requests: Sequence[Request[Any, Any]], policy: str) -> list[CheckedJob]:
    from windlass.submit.groups import chain_jobs

    return chain_jobs(requests, policy, home.authority, home.registry)
