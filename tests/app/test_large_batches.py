"""A batch of ten thousand members: stored, ended and summed up page by page."""

from __future__ import annotations

import tracemalloc
from datetime import timedelta

import pytest

from windlass import App, Context
from windlass.features import open_store
from windlass.handlers.parents import parents_of
from windlass.model import Completed, ParentCounts, State

pytestmark = [pytest.mark.long, pytest.mark.timing]

MEMBERS = 10_000
SIZE = 2_000
MOST = 16_000_000
"""Bytes that reading may take; all results together are 20 MB of JSON."""


def test_ten_thousand_members_are_summed_up_in_bounded_memory(store_url: str) -> None:
    with open_store(store_url) as store:
        app = App(store=store)

        @app.job
        def member(n: int) -> str:
            return ""

        @app.job
        def summary(ctx: Context) -> None: ...

        batch = app.batch([member.request(n) for n in range(MEMBERS)], then=summary.request())
        assert len({job.id for job in batch.members}) == MEMBERS
        holder = store.join(lease=timedelta(hours=1))
        while leases := holder.claim("member", 1000):
            assert store.jobs.get(batch.then.id).state is State.WAITING
            holder.record([Completed(lease, "x" * SIZE) for lease in leases])
        assert batch.progress() == ParentCounts(MEMBERS, completed=MEMBERS)
        (lease,) = holder.claim("summary", 2)

        class Reads:
            """What a running job may ask, as far as it is asked here."""

            def parents_of(self, lease: object, after: str) -> object:
                return store.parents.page(batch.then.id, after)

        tracemalloc.start()
        try:
            parents = parents_of(lease, Reads(), str, None)  # type: ignore[arg-type]
            assert sum(len(text) for text in parents.results()) == MEMBERS * SIZE
            assert tracemalloc.get_traced_memory()[1] < MOST
        finally:
            tracemalloc.stop()
        holder.complete(lease)
        assert store.jobs.get(batch.then.id).state is State.COMPLETED and holder.claim("summary", 1) == []
