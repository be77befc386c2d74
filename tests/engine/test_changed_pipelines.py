"""A pipeline that was changed while jobs were under way: every phase that is there now once, none left out, and it is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.engine.shop import QUICK, Shop
from windlass.app.app import App
from windlass.engine.one_job import OneJobRunner, Status
from windlass.handlers.context import Context
from windlass.model import State

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


def release(shop: Shop, order: Sequence[str], ran: list[str], *, in_transaction: bool = False) -> App:
    """An app whose pipeline has its phases in this order."""
    app = App(shop.app.url, settings=QUICK, store=shop.store)
    pipe = app.pipeline("pipe")
    for label in order:
        pipe.phase(label)(handler(label, ran, in_transaction=in_transaction))
    return app


def handler(label: str, ran: list[str], *, in_transaction: bool) -> Callable[..., Any]:
    def work(n: int, ctx: Context) -> Any:
        ran.append(label)
        if not in_transaction:
            return label
        with ctx.transaction() as tx:
            tx.complete(label)
        return None

    return work


@pytest.mark.parametrize(
    ("before", "at", "after", "expected", "is_told", "in_transaction"),
    [
        ("abc", 1, "cab", "abc", True, False),  # c is before it now: it is not left out
        ("abc", 1, "bac", "abc", True, False),  # a is after it now: it is not visited twice
        (
            "abc",
            0,
            "bca",
            "abc",
            True,
            False,
        ),  # it is in the last phase now, and has been in none of the others
        ("abc", 0, "bca", "abc", True, True),
        ("ab", 1, "axb", "abx", True, True),  # one came between
        ("abc", 1, "ab", "ab", False, False),  # the last one is gone
        ("abc", 1, "abc", "abc", False, True),
    ],
)
def test_no_phase_is_left_out_or_visited_twice(
    shop: Shop, caplog: pytest.LogCaptureFixture, before: str, at: int, after: str, expected: str,
    is_told: bool, in_transaction: bool,
) -> None:  # fmt: skip
    ran: list[str] = []
    job = release(shop, before, ran).enqueue("pipe", n=1)
    holder = shop.store.join()
    for here, there in pairwise(before[: at + 1]):  # what the release before has done
        (lease,) = holder.claim(f"pipe:{here}", 1)
        ran.append(here)
        holder.advance(lease, f"pipe:{there}", here)
    with caplog.at_level(logging.WARNING, "windlass.store"):
        shop.drained(shop.serve_app(release(shop, after, ran, in_transaction=in_transaction)))
    done = shop.job(job)
    assert (done.state, "".join(ran), done.result) == (State.COMPLETED, expected, expected[-1])
    told = [record for record in caplog.records if "its pipeline was changed" in record.message]
    assert bool(told) == is_told and all(record.__dict__["job_id"] == job.id for record in told)


def test_a_request_goes_on_where_the_job_does(shop: Shop) -> None:
    ran: list[str] = []
    job = release(shop, "abc", ran).enqueue("pipe", n=1)
    with OneJobRunner(shop.store, release(shop, "bca", ran).parts.registry, settings=QUICK) as requests:
        done = requests.process(job.id)
    assert (done.status, ran) == (Status.COMPLETED, ["a", "b", "c"])
