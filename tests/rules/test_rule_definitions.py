"""Rules in the database: added, changed, marked and removed; and what cannot be a rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.life import one
from windlass.clock import ManualClock
from windlass.errors import ConfigError, RuleCycleError, RuleNotFoundError, WindlassError
from windlass.features import Store
from windlass.model import Defined, DependencyPolicy
from windlass.model.rule import Rule

ONE = Rule(
    name="one", parents=("a",), create="b", phase="b", args={"*": "args", "x": "result.0"}, source="shop"
)
ALL = Rule(
    name="all",
    parents=("z", "a", "m"),
    create="c",
    phase="c.first",
    key=("args.q", "args.p.0", "correlation_id"),
    args={"q": "args.q", "r": ("m", "result")},
    policy=DependencyPolicy.WAIT,
    priority=9,
    max_attempts=12,
    inherit=False,
    source="reports:monthly",
)


def test_a_rule_is_kept_as_it_was_defined(store: Store, clock: ManualClock) -> None:
    """And is the same to any instance."""
    assert store.rules.list() == []
    assert store.rules.define([ONE, ALL]) == Defined(("one", "all"))
    assert [item.rule for item in store.rules.list()] == [ALL, ONE]
    kept = store.rules.get("all")
    assert kept.rule == ALL and (kept.defined_at, kept.changed_at, kept.gone_at) == (
        clock.now(),
        clock.now(),
        None,
    )


def test_the_same_definitions_again_write_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker that starts defines them."""
    store.rules.define([ONE, ALL], ["shop", "reports"])
    monkeypatch.setattr(store.db, "transact", lambda _: pytest.fail("it wrote"))
    assert store.rules.define([ALL, ONE], ["shop", "reports"]) == Defined()
    assert store.rules.define([replace(ALL, args={"r": ["m", "result"], "q": "args.q"})]) == Defined()  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "change",
    [
        {"parents": ("a2",)},
        {"create": "b2"},
        {"phase": "b2"},
        {"args": {}},
        {"policy": DependencyPolicy.RUN},
        {"priority": 0},
        {"max_attempts": 1},
        {"inherit": False},
        {"source": "elsewhere"},
        {"parents": ("a", "a2"), "key": ("args.p",), "args": {}},
    ],
)
def test_a_definition_that_changed_replaces_the_one_before(
    store: Store, clock: ManualClock, change: Any
) -> None:
    store.rules.define([ONE, ALL])
    began = clock.now()
    clock.advance(5)
    changed = replace(ONE, **change)
    assert store.rules.define([changed, ALL]) == Defined((), ("one",))
    kept = store.rules.get("one")
    assert kept.rule == changed and (kept.defined_at, kept.changed_at) == (began, clock.now())
    assert store.rules.get("all").changed_at == began


def test_a_rule_that_is_gone_from_its_module_is_marked_and_fires(store: Store, clock: ManualClock) -> None:
    """In a rolling deploy the release without it may start last. It is back with the code, and ends when somebody removes it."""
    other = replace(ONE, name="other", source="elsewhere")
    store.rules.define([ONE, ALL, other])
    assert store.rules.define([], ["shop", "reports"]) == Defined((), (), ("all", "one"))
    gone = {item.rule.name: item.gone_at for item in store.rules.list()}
    assert gone == {"one": clock.now(), "all": clock.now(), "other": None}
    clock.advance(1)
    assert store.rules.define([], ["shop", "reports"]) == Defined(), "once"
    one(store, "a")
    holder = store.join()
    holder.complete(holder.claim("a", 1)[0])
    assert len(store.jobs.list().jobs) == 3
    assert store.rules.define([ONE], ["shop"]) == Defined((), ("one",))
    assert store.rules.get("one").gone_at is None and store.rules.get("all").gone_at is not None
    store.rules.remove("all")
    assert [item.rule.name for item in store.rules.list()] == ["one", "other"]


def test_a_rule_that_is_not_there(store: Store) -> None:
    store.rules.define([ONE])
    for ask in (store.rules.get, store.rules.remove, lambda name: store.rules.backfill(name, store.now())):
        for name in ("two", "", "x" * 300):
            with pytest.raises(RuleNotFoundError) as caught:
                ask(name)
            assert caught.value.name == name
    assert [item.rule for item in store.rules.list()] == [ONE]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"source": "\n"}, "source"),
        ({"parents": ()}, "parents"),
        ({"parents": ("a", "a"), "key": ("args.p",)}, "parents"),
        ({"parents": ("not a name",)}, "parents"),
        ({"parents": tuple(f"k{n}" for n in range(101)), "key": ("args.p",)}, "parents"),
        ({"parents": ("a", "b2")}, "key"),
        ({"key": ("args.p",)}, "key"),
        ({"parents": ("a", "b2"), "key": ("period",)}, "key"),
        ({"parents": ("a", "b2"), "key": ("result.p",)}, "key"),
        ({"parents": ("a", "b2"), "key": ("args.p",), "args": {"x": "result"}}, "args of x"),
        ({"args": {"x": "nothing"}}, "args of x"),
        ({"policy": "run"}, "policy"),
        ({"priority": 10}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"create": "not a name"}, "kind"),
        ({"phase": ""}, "phase"),
    ],
)
def test_what_cannot_be_a_rule_is_named_and_nothing_is_stored(
    shared_store: Store, change: Any, key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        shared_store.rules.define([ALL, replace(ONE, **change)])
    assert caught.value.key == key
    assert shared_store.rules.list() == []


def test_two_rules_of_one_name_are_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="a name of its own"):
        store.rules.define([ONE, replace(ONE, create="other")])
    assert store.rules.list() == []


@pytest.mark.parametrize("known", ["both new", "one stored", "one stored and gone", "one changed"])
def test_a_circle_of_rules_is_refused_and_drawn(store: Store, known: str) -> None:
    """Also one that another application's rule closes. What was there stays as it was."""
    back = Rule(name="back", parents=("b",), create="a", phase="a", source="other")
    if known == "both new":
        wanted = [ONE, back]
    elif known == "one changed":
        store.rules.define([ONE, replace(back, create="c")])
        wanted = [back]
    else:
        store.rules.define([back])
        if "gone" in known:
            store.rules.define([], ["other"])
        wanted = [ONE]
    before = store.rules.list()
    with pytest.raises(RuleCycleError) as caught:
        store.rules.define(wanted)
    assert set(caught.value.rules) == {"one", "back"}
    assert " → ".join(caught.value.cycle) in str(caught.value) and len(caught.value.cycle) == 3
    assert store.rules.list() == before
    with pytest.raises(RuleCycleError, match="a → a"):
        store.rules.define([replace(ONE, create="a")])


def test_a_circle_is_judged_with_the_rules_as_they_will_be(store: Store) -> None:
    """A change that opens one circle may close another way round."""
    store.rules.define([ONE, Rule(name="two", parents=("b",), create="c", phase="c")])
    turned = [
        replace(ONE, parents=("b",), create="a"),
        Rule(name="two", parents=("c",), create="b", phase="b"),
    ]
    store.rules.define(turned)
    assert [item.rule.create for item in store.rules.list()] == ["a", "b"]


@pytest.mark.parametrize("since", [None, "yesterday", datetime(2026, 1, 1)])  # noqa: DTZ001  that is the point
def test_a_backfill_needs_a_moment(store: Store, since: Any) -> None:
    store.rules.define([ONE])
    with pytest.raises(ConfigError) as caught:
        store.rules.backfill("one", since)
    assert caught.value.key == "since"


def test_every_refusal_is_one_of_ours(store: Store) -> None:
    for rule in (replace(ONE, args={"x": object()}), replace(ONE, key=(None,))):  # type: ignore[dict-item,arg-type]
        with pytest.raises(WindlassError):
            store.rules.define([rule])


def test_a_kind_keeps_its_time_while_some_rule_has_it(store: Store, clock: ManualClock) -> None:
    """Its jobs are looked through once, not with every rule; and again when it had no rule for a while."""

    def new() -> list[str]:
        return [row[0] for row in store.db.read("rule.kinds.new")]

    store.rules.define([ONE])
    assert new() == ["a"]
    store.rules.catch_up()
    assert new() == []
    clock.advance(timedelta(seconds=16))
    assert new() == ["a"]
    store.rules.catch_up()
    store.rules.define([ONE, ALL])
    assert new() == ["m", "z"]
    store.rules.catch_up()
    store.rules.remove("one")
    assert new() == []
    store.rules.remove("all")
    store.rules.define([ONE])
    assert new() == ["a"]
    since = store.db.read("rule.kinds.new")[0][1]
    store.db.run("rule.kinds.scanned", kinds=["a"], since=_other(since), looks=2)
    store.db.run("rule.kinds.scanned", kinds=["b"], since=since, looks=2)
    assert new() == ["a"], "that look was at another time's kind"


def _other(since: Any) -> Any:
    return since - timedelta(seconds=1) if isinstance(since, datetime) else since - 1
