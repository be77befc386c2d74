"""``app.when`` and ``app.when_all``: what they take, what they leave to be looked up, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.app.app import App
from windlass.errors import ConfigError, RuleCycleError
from windlass.handlers.context import Context
from windlass.model import Defined, DependencyPolicy
from windlass.model.rule import Rule


def reports() -> App:
    app = App("sqlite://")

    @app.job(name="hours-report")
    def hours(period: str, county: str, ctx: Context) -> None: ...

    @app.job(name="leave-report")
    def leave(period: str, county: str, kind: str = "all") -> None: ...

    @app.job(retry=windlass.retry.fixed(9, wait=1.0))
    def summary(period: str, county: str) -> None: ...

    @app.job
    def mail(period: str, text: str = "") -> None: ...

    steps = app.pipeline("steps")

    @steps.phase("first", retry=windlass.retry.fixed(4, wait=1.0))
    def first(period: str, county: str) -> None: ...

    @steps.phase("second")
    def second(period: str, county: str) -> None: ...

    return app


def resolved(app: App) -> list[Rule]:
    return app.parts.registry.rules.resolved(app.parts.registry)


def test_a_rule_with_one_parent() -> None:
    app = reports()
    app.when("hours-report", create="summary")
    (rule,) = resolved(app)
    assert rule == Rule(
        name="hours-report->summary",
        parents=("hours-report",),
        create="summary",
        phase="summary",
        args={"*": "args"},
        max_attempts=9,
        source=__name__,
    )


def test_a_rule_with_several_parents() -> None:
    app = reports()
    app.when_all(["hours-report", "leave-report"], create="summary", key=["args.period", "args.county"])
    (rule,) = resolved(app)
    assert rule.name == "hours-report+leave-report->summary"
    assert rule.key == ("args.period", "args.county")
    assert rule.args == {"period": "args.period", "county": "args.county"}


def test_everything_can_be_said() -> None:
    app = reports()
    app.when_all(
        ["hours-report", "leave-report"],
        create="mail",
        key=["args.period", "correlation_id"],
        args={"period": "args.period", "text": ("leave-report", "result")},
        name="tell",
        policy="run",
        priority=1,
        max_attempts=2,
        inherit=False,
        phase="mail",
    )
    (rule,) = resolved(app)
    assert (rule.name, rule.policy, rule.priority, rule.max_attempts, rule.inherit) == (
        "tell",
        DependencyPolicy.RUN,
        1,
        2,
        False,
    )


def test_kinds_may_be_given_as_what_was_defined() -> None:
    app = App("sqlite://")

    @app.job
    def a(n: int) -> None: ...

    pipeline = app.pipeline("steps")

    @pipeline.phase("one")
    def one(n: int) -> None: ...

    app.when(a, create=pipeline)
    (rule,) = resolved(app)
    assert (rule.parents, rule.create, rule.phase) == (("a",), "steps", "steps:one")


def test_a_pipeline_is_created_in_its_first_phase() -> None:
    app = reports()
    app.when("hours-report", create="steps")
    (rule,) = resolved(app)
    assert (rule.phase, rule.max_attempts) == ("steps:first", 4)


def test_a_rule_may_stand_before_the_kinds_it_names() -> None:
    app = App("sqlite://")
    app.when("early", create="late")

    @app.job
    def late(n: int = 0) -> None: ...

    @app.job
    def early() -> None: ...

    assert [rule.create for rule in resolved(app)] == ["late"]


def test_kinds_of_other_applications_have_to_be_said() -> None:
    app = reports()
    app.when("hours-report", create="archive", phase="archive:first", elsewhere=True)
    app.when("foreign", create="summary", elsewhere=True)
    first, second = resolved(app)
    assert (first.phase, first.max_attempts) == ("archive:first", 3)
    assert second.max_attempts == 9


@pytest.mark.parametrize(
    ("parent", "create", "hint"),
    [
        ("hour-report", "summary", "did you mean hours-report?"),
        ("hours-report", "sumary", "did you mean summary?"),
        ("hours-report", "zzz", "elsewhere=True"),
    ],
)
def test_kinds_that_nobody_defines_are_refused(parent: str, create: str, hint: str) -> None:
    app = reports()
    app.when(parent, create=create)
    with pytest.raises(ConfigError, match=hint.replace("?", r"\?")) as caught:
        resolved(app)
    assert caught.value.key == f"a kind of the rule {parent}->{create}"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"key": "args.period"}, "key"),
        ({"key": []}, "key"),
        ({"key": ["period"]}, "key"),
        ({"key": ["args.period"], "policy": "ignore"}, "policy"),
        ({"key": ["args.period"], "priority": 10}, "priority"),
        ({"key": ["args.period"], "max_attempts": 0}, "max_attempts"),
        ({"key": ["args.period"], "args": {"period": "args.county"}}, "args of period"),
        ({"key": ["args.period"], "name": ""}, "name"),
    ],
)
def test_mistakes_are_refused_where_they_are_written(options: Any, key: str) -> None:
    app = reports()
    with pytest.raises(ConfigError) as caught:
        app.when_all(["hours-report", "leave-report"], create="summary", **options)
    assert caught.value.key == key and len(app.parts.registry.rules) == 0


@pytest.mark.parametrize("parents", [[], ["hours-report"], "hours-report"])
def test_several_parents_are_two_or_more(parents: Any) -> None:
    with pytest.raises(ConfigError, match=r"use when\(\)"):
        reports().when_all(parents, create="summary", key=["args.period"])


def test_a_kind_must_be_one() -> None:
    with pytest.raises(ConfigError, match="the name of a kind"):
        reports().when(7, create="summary")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"key": ["args.month"]}, "takes period, county"),
        ({"key": ["args.kind"]}, "hours-report, which takes period, county"),
        (
            {
                "key": ["args.period"],
                "args": {"period": "args.period", "county": ("hours-report", "args.kind")},
            },
            "hours-report, which takes",
        ),
        ({"key": ["args.period"]}, "summary also needs county"),
        (
            {"key": ["args.period"], "args": {"period": "args.period", "text": ("hours-report", "result")}},
            "text",
        ),
    ],
)
def test_paths_and_arguments_are_held_against_the_handlers(options: Any, hint: str) -> None:
    app = reports()
    app.when_all(["hours-report", "leave-report"], create="summary", **options)
    with pytest.raises(ConfigError, match=hint):
        resolved(app)


def test_all_arguments_must_fit_the_child() -> None:
    app = reports()
    app.when("leave-report", create="summary")
    with pytest.raises(ConfigError, match="say with args= what it gets") as caught:
        resolved(app)
    assert caught.value.value == "kind"


def test_what_nobody_can_know_before_is_not_refused() -> None:
    app = reports()
    app.when("hours-report", create="summary", args={"*": "result"})
    app.when("elsewhere", create="mail", elsewhere=True)
    assert len(resolved(app)) == 2


def test_a_circle_is_refused_where_it_is_closed() -> None:
    app = reports()
    app.when("hours-report", create="summary")
    app.when("summary", create="mail", args={"period": "args.period"})
    with pytest.raises(RuleCycleError, match="hours-report → summary → mail → hours-report"):
        app.when("mail", create="hours-report")
    with pytest.raises(RuleCycleError, match="mail → mail"):
        app.when("mail", create="mail")
    assert len(app.parts.registry.rules) == 2


def test_a_name_is_taken_once() -> None:
    app = reports()
    app.when("hours-report", create="summary")
    with pytest.raises(ConfigError, match="name="):
        app.when("hours-report", create="summary", policy="run")
    app.when("hours-report", create="summary", policy="run", name="another")


def test_an_app_puts_its_rules_into_the_database(tmp_path: Path) -> None:
    """Once; what is gone from the module is marked."""
    url = f"sqlite:///{tmp_path}/jobs.db"

    def app_with(*creates: str) -> App:
        app = App(url)

        @app.job
        def a() -> None: ...

        @app.job
        def b() -> None: ...

        for create in creates:
            app.when("a", create=create)
        return app

    with app_with("b") as app:
        a = app.enqueue("a")
        assert app.sync().rules.added == ("a->b",)
        assert app.sync().rules == Defined()
        holder = app.store.join()
        (lease,) = holder.claim("a", 1)
        assert lease.id == a.id
        holder.complete(lease)
        assert len(holder.claim("b", 1)) == 1
    with app_with() as app:
        assert app.sync().rules.gone == ("a->b",)
        assert app.store.rules.get("a->b").gone_at is not None
    broken = App(url)
    broken.when("x", create="y")
    with broken, pytest.raises(ConfigError):
        broken.sync()
