"""Every call of the control service for every actor: nobody sees or changes what belongs to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.control.anna import Belongings, belongings
from tests.control.calls import CALLS, public_calls
from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from windlass import App
from windlass.control.actor import OPERATOR
from windlass.errors import JobNotFoundError, NotAllowedError, OperationNotFoundError, UnknownParentError
from windlass.features import Store
from windlass.model.principal import Principal

CANARY = "canary-7f3a"
STRANGERS = {
    "same tenant": BERT,
    "another tenant": CARA,
    "namesake of another tenant": Principal("anna", tenant="other"),
    "namesake of another issuer": Principal("anna", tenant="acme", issuer="https://other.example"),
    "namesake without a tenant": Principal("anna"),
    "operator of another tenant": Principal("otto", tenant="other", roles=frozenset({OPERATOR})),
}
REFUSED = (JobNotFoundError, NotAllowedError, OperationNotFoundError, UnknownParentError)


@dataclass
class World:
    """An app, and what belongs to Anna, each with the canary in it."""

    app: App
    annas: Belongings

    def call(self, name: str, who: Principal) -> Any:
        return CALLS[name](self.app.acting_as(who), self.annas)


@pytest.fixture(scope="module")
def world(open_shared: Callable[[], Store]) -> Iterator[World]:
    store = open_shared()
    app = App(store=store)

    @app.job
    def welcome(text: str) -> None: ...

    with app, belongings(app, store, CANARY, reason=CANARY) as annas:
        yield World(app, annas)


COUNTS = {"jobs.count", "jobs.retry_many", "jobs.cancel_many", "operations.start"}
LISTS = {"jobs.list", "jobs.iterate", "jobs.iterate_async", *COUNTS}
OF_OWN_KEYS = {"submits.note_end_async"}
"""Calls about a key of the caller's own: there is nothing to refuse, and nothing of others to see."""
NOTHING_FOUND = {
    "jobs.count": ("searched", 0),
    "failures.list": ("searched", 0),
    "audit.list": ("next_cursor", None),
    "operations.list": ("next_cursor", None),
}
"""What lists say beside their rows: the number of rows of others is not to be seen either."""
SHOWN = (
    "jobs.get",
    "jobs.list",
    "jobs.iterate",
    "jobs.iterate_async",
    "jobs.timeline",
    "jobs.logs",
    "jobs.progress",
    "jobs.outputs",
    "jobs.why",
    "jobs.stack",
    "jobs.events",
    "jobs.events_async",
    "failures.list",
    "operations.get",
    "operations.list",
    "operations.handle",
    "operations.wait",
    "audit.list",
)
FOUND = ("jobs.count", "jobs.retry_many", "jobs.cancel_many", "operations.start")


def test_the_matrix_has_every_call() -> None:
    assert public_calls() == set(CALLS)


@pytest.mark.parametrize("who", STRANGERS)
@pytest.mark.parametrize("call", CALLS)
def test_strangers_see_and_change_nothing(world: World, call: str, who: str) -> None:
    before = (world.app.jobs.list("kind:welcome").jobs, world.app.audit.list().records)
    try:
        result = world.call(call, STRANGERS[who])
    except REFUSED as error:
        result = str(error)
        for given in world.annas.ids:
            result = result.replace(given, "")
    shown = repr(result)
    for secret in (CANARY, *world.annas.ids):
        assert secret not in shown
    if call in NOTHING_FOUND and not isinstance(result, str):
        name, value = NOTHING_FOUND[call]
        assert getattr(result, name) == value
    if call.startswith(("jobs.", "submits.")) and call not in LISTS | OF_OWN_KEYS:
        assert isinstance(result, str), "refused as a job that does not exist"
    if call in COUNTS:
        assert getattr(result, "count", result) == 0
    assert (world.app.jobs.list("kind:welcome").jobs, world.app.audit.list().records) == before


@pytest.mark.parametrize("who", [ANNA, OPS, BOSS], ids=lambda one: one.subject)
@pytest.mark.parametrize("call", SHOWN)
def test_owners_operators_and_administrators_see_it(world: World, call: str, who: Principal) -> None:
    assert CANARY in repr(world.call(call, who))


@pytest.mark.parametrize("who", [ANNA, OPS, BOSS], ids=lambda one: one.subject)
@pytest.mark.parametrize("call", FOUND)
def test_owners_operators_and_administrators_find_all_five_jobs(
    world: World, call: str, who: Principal
) -> None:
    found = world.call(call, who)
    assert getattr(found, "count", found) == 5


@pytest.mark.parametrize("who", [ANNA, OPS, BOSS], ids=lambda one: one.subject)
def test_owners_operators_and_administrators_see_related_jobs_and_batches(
    world: World, who: Principal
) -> None:
    related = world.call("jobs.related", who)
    assert {group.sample for group in related.groups} == {world.annas.queued, world.annas.follower}
    assert world.call("jobs.batch", who).total == 2
    assert world.call("jobs.present", who) is None
