"""Rules that are fired by failures: ``when(..., on="failure")`` and ``on_failure=``; a child for each job that failed, with its error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import windlass
from tests.conformance.life import BOOM, claim_one, one, state
from tests.rules.ruled import children, end, when
from windlass import App
from windlass.errors import ConfigError, RuleCycleError
from windlass.features import Store
from windlass.model import DependencyPolicy, State
from windlass.model.rule import Rule, RuleEvent
from windlass.testing import Sandbox

FAILURE = RuleEvent.FAILURE


def test_a_child_is_made_of_each_job_that_failed_by_the_commit_that_fails_it(store: Store) -> None:
    """And of none that completed, was cancelled, or is to be tried again."""
    when(
        store,
        "a",
        args={"job_id": "id", "message": "error.message", "error": "error", "kind": "kind", "n": "args.n"},
        event=FAILURE,
    )
    holder = store.join()
    failed = one(store, "a", args={"n": 7}, correlation_id="order-7")
    holder.retry_later(claim_one(holder, "a"), BOOM, timedelta(0))
    assert children(store) == []
    store.upkeep.promote()
    end(holder, "a", "failed")
    for how in ("completed", "cancelled"):
        one(store, "a", args={"n": 8})
        end(holder, "a", how)
    (child,) = children(store)
    assert child.state is State.QUEUED and child.correlation_id == "order-7"
    error = child.args["error"]
    assert {name: value for name, value in child.args.items() if name != "error"} == {
        "job_id": failed,
        "message": "it broke",
        "kind": "a",
        "n": 7,
    }
    assert (error["code"], error["attempt"], "traceback" in error) == ("boom", 2, False)
    (edge,) = store.dependencies.of(child.id)
    assert (edge.parent, edge.parent_state) == (failed, "failed")


def test_each_failure_makes_its_own_child_and_a_later_completion_none(store: Store) -> None:
    """A job that is retried by hand and fails again has failed twice."""
    when(store, "a", args={}, event=FAILURE)
    holder = store.join()
    job = one(store, "a")
    for number in (1, 2):
        end(holder, "a", "failed")
        assert len(children(store)) == number
        store.jobs.retry(job)
    end(holder, "a")
    assert state(store, job) is State.COMPLETED and len(children(store)) == 2
    assert store.rules.open() == []


def test_a_rule_for_completions_and_one_for_failures_do_not_meet(store: Store) -> None:
    when(store, "a", create="good", args={})
    when(store, "a", create="bad", args={}, event=FAILURE)
    assert {stored.rule.create: stored.rule.event for stored in store.rules.list()} == {
        "good": "success",
        "bad": "failure",
    }
    holder = store.join()
    for how in ("completed", "failed"):
        one(store, "a")
        end(holder, "a", how)
    assert [len(children(store, kind)) for kind in ("good", "bad")] == [1, 1]


def test_a_rule_that_becomes_one_for_failures_fires_for_failures(store: Store) -> None:
    when(store, "a", args={}, name="r")
    assert when(store, "a", args={}, name="r", event=FAILURE).event is FAILURE
    holder = store.join()
    for how in ("completed", "failed"):
        one(store, "a")
        end(holder, "a", how)
    assert len(children(store)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": DependencyPolicy.RUN},
        {"parents": ("a", "b"), "key": ("args.k",), "args": {"k": "args.k"}},
        {"event": "never"},
        {"args": {"x": "errors"}},
    ],
)
def test_what_cannot_be_a_rule_for_failures_is_refused(shared_store: Store, wrong: dict[str, Any]) -> None:
    rule: dict[str, Any] = {
        "name": "r",
        "parents": ("a",),
        "create": "c",
        "phase": "c",
        "event": FAILURE,
        **wrong,
    }
    with pytest.raises(ConfigError):
        shared_store.rules.put(Rule(**rule))


# ------------------------------------------------------------------------------------------------ as code has it


def resolved(app: App) -> dict[str, Rule]:
    return {rule.name: rule for rule in app.parts.registry.rules.resolved(app.parts.registry)}


def shop() -> App:
    app = App("sqlite://")

    @app.job
    def alert(job_id: str, error: dict[str, Any], order: int = 0) -> None: ...

    @app.job
    def mail(order: int) -> None: ...

    return app


def test_the_decorator_is_short_for_two_rules() -> None:
    app = shop()

    @app.job(on_failure="alert", on_success="mail")
    def pay(order: int) -> None: ...

    good, bad = resolved(app)["pay->mail"], resolved(app)["pay failed->alert"]
    assert (good.event, good.args, good.source) == ("success", {"*": "args"}, __name__)
    assert (bad.event, bad.args) == ("failure", {"job_id": "id", "error": "error", "order": "args.order"})
    other = shop()

    @other.job(name="pay")
    def again(order: int) -> None: ...

    other.when(again, create="alert", on="failure")
    other.when(again, create="mail")
    assert resolved(other) == resolved(app)


def test_a_pipeline_takes_them_too() -> None:
    app = shop()
    pay = app.pipeline("pay", on_failure="alert", on_success="mail")

    @pay.phase("reserve")
    def reserve(order: int) -> None: ...

    @pay.phase("charge")
    def charge(order: int) -> None: ...

    other = shop()

    @other.job(name="pay", on_failure="alert", on_success="mail")
    def again(order: int) -> None: ...

    assert resolved(app) == resolved(other)


def test_a_handler_for_failures_is_given_what_its_parameters_are_named_after() -> None:
    app = App("sqlite://")

    @app.job
    def pay(order: int, error: str = "") -> None: ...

    @app.job
    def note(kind: str, args: dict[str, Any], correlation_id: str, error: Any, other: int = 1) -> None: ...

    app.when(pay, create=note, on="failure")
    assert resolved(app)["pay failed->note"].args == {
        "kind": "kind",
        "args": "args",
        "correlation_id": "correlation_id",
        "error": "error",
    }


def test_a_handler_that_needs_more_than_there_is_is_refused() -> None:
    app = shop()

    @app.job(on_failure="mail")
    def pay(number: int) -> None: ...

    with pytest.raises(ConfigError, match="mail also needs order; say with args="):
        resolved(app)


def test_a_kind_elsewhere_is_given_the_id_and_the_error() -> None:
    app = shop()
    app.when("mail", create="far", on="failure", elsewhere=True)
    assert resolved(app)["mail failed->far"].args == {"job_id": "id", "error": "error"}


def test_mistakes_are_refused_where_they_are_written() -> None:
    app = shop()
    with pytest.raises(ConfigError, match="success or failure"):
        app.when("mail", create="alert", on="error")
    with pytest.raises(ConfigError, match="did you mean on_failure"):
        app.job(on_failur="alert")  # type: ignore[call-overload]
    app.when("mail", create="alert", on="failure")
    with pytest.raises(RuleCycleError):
        app.when("alert", create="mail", on="failure")


@pytest.fixture
def box(store_url: str) -> Iterator[Sandbox]:
    app = App()

    @app.job
    def alert(job_id: str, error: dict[str, Any], order: int) -> str:
        return f"{order}: {error['message']}"

    @app.job
    def mail(order: int) -> None: ...

    @app.job(on_failure=alert, on_success=mail, retry=windlass.retry.fixed(attempts=2, wait=1))
    def pay(order: int = 4) -> None:
        if order == 4:
            raise ValueError("no money")

    with Sandbox(app, url=store_url) as made:
        yield made


def test_a_pipelines_job_ends_once_in_whichever_phase(store_url: str) -> None:
    app = App()

    @app.job
    def alert(job_id: str, error: dict[str, Any]) -> str:
        return f"{job_id}: {error['message']}"

    @app.job
    def mail(order: int) -> None: ...

    pay = app.pipeline("pay", on_failure=alert, on_success=mail)

    @pay.phase("reserve", retry=windlass.retry.fixed(1))
    def reserve(order: int) -> None:
        if order == 1:
            raise ValueError("none left")

    @pay.phase("charge", retry=windlass.retry.fixed(1))
    def charge(order: int) -> None:
        if order == 2:
            raise ValueError("no money")

    with Sandbox(app, url=store_url) as box:
        first, second, _ = (pay.enqueue(order=order) for order in (1, 2, 3))
        box.drain()
        assert {job.result for job in box.jobs("alert")} == {
            f"{first.id}: ValueError: none left",
            f"{second.id}: ValueError: no money",
        }
        assert box.only("mail").args == {"order": 3}


def test_a_job_that_fails_after_its_last_attempt_makes_one_alert(box: Sandbox) -> None:
    """An argument that was left to its default is passed on, too."""
    box.app.enqueue("pay", order=3)
    failing = box.app.enqueue("pay")
    box.drain()
    assert box.jobs("alert") == []
    box.drain(advance=True)
    alert = box.only("alert")
    assert alert.result == "4: ValueError: no money" and alert.args["job_id"] == failing.id
    assert box.only("mail").args == {"order": 3}
