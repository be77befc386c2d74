"""Rules as data: what paths find, which parents belong together, what a child gets, and circles."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from windlass.errors import ConfigError, RuleCycleError
from windlass.model import DependencyPolicy, State
from windlass.model.rule import (
    Rule,
    check_paths,
    default_args,
    default_name,
    find,
    key_of,
    key_value,
    refuse_cycles,
    share_of,
)

FACTS: dict[str, Any] = {
    "id": "7",
    "correlation_id": "c",
    "state": "completed",
    "args": {
        "period": "2026-07",
        "address": {"city": "Cork"},
        "items": [{"sku": "a"}, {"sku": "b"}],
        "none": None,
    },
    "result": [1, 2],
}


def rule(*parents: str, create: str = "c", **options: Any) -> Rule:
    return Rule(name=options.pop("name", "r"), parents=parents, create=create, phase=create, **options)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("args.period", "2026-07"),
        ("args.address.city", "Cork"),
        ("args.items.1.sku", "b"),
        ("args.items.2.sku", None),
        ("args.items.x", None),
        ("args.items.-1", None),
        ("args.period.x", None),
        ("args.nothing.at.all", None),
        ("args.none", None),
        ("result", [1, 2]),
        ("result.0", 1),
        ("id", "7"),
        ("correlation_id", "c"),
        ("state", "completed"),
        ("args", FACTS["args"]),
    ],
)
def test_what_a_path_finds(path: str, value: Any) -> None:
    assert find(path, FACTS) == value


def test_keys_are_equal_for_equal_values() -> None:
    two = rule("a", "b", key=("args.n", "args.s"))
    same = [{"n": 1, "s": "x"}, {"s": "x", "n": 1.0}]
    assert len({key_of(two, {"args": args}) for args in same}) == 1
    other = [
        {"n": 1, "s": "x"},
        {"n": "1", "s": "x"},
        {"n": True, "s": "x"},
        {"n": None, "s": "x"},
        {"n": 1.5, "s": "x"},
    ]
    assert len({key_of(two, {"args": args}) for args in other}) == 5
    assert key_of(two, {"args": {"s": "x"}}) == key_of(two, {"args": {"n": None, "s": "x"}})
    tree = rule("a", "b", key=("args.t",))
    assert key_of(tree, {"args": {"t": {"x": [1.0], "y": 2}}}) == key_of(
        tree, {"args": {"t": {"y": 2, "x": [1]}}}
    )
    assert key_value(key_of(two, {"args": same[0]})) == [1, "x"]


def test_a_long_key_is_cut_and_still_its_own() -> None:
    two = rule("a", "b", key=("args.s",))
    keys = {key_of(two, {"args": {"s": "ü" * 1000 + end}}) for end in "xy"}
    assert len(keys) == 2 and all(len(key.encode()) < 1000 for key in keys)
    assert key_value(min(keys)) == min(keys)


def test_what_a_parent_adds_to_the_child() -> None:
    both = rule("a", args={"*": "args", "period": "result.0", "who": "id"})
    assert share_of(both, "a", FACTS) == {**FACTS["args"], "period": 1, "who": "7"}
    fan_in = rule(
        "a",
        "b",
        key=("args.period",),
        args={"period": "args.period", "mine": ("a", "result"), "yours": ("b", "result")},
    )
    assert share_of(fan_in, "a", FACTS) == {"period": "2026-07", "mine": [1, 2]}
    assert share_of(fan_in, "b", FACTS) == {"period": "2026-07", "yours": [1, 2]}
    assert share_of(rule("a", args={"*": "result"}), "a", FACTS) == {}, "only what has names can be spread"


def test_defaults() -> None:
    assert default_args(()) == {"*": "args"}
    assert default_args(("args.period", "args.address.city", "correlation_id")) == {
        "period": "args.period",
        "city": "args.address.city",
    }
    with pytest.raises(ConfigError, match="end alike"):
        default_args(("args.a.id", "args.b.id"))
    assert default_name(["a", "b"], "c") == "a+b->c"
    long = [default_name([f"kind-{n}" for n in range(count)], "c") for count in (60, 61)]
    assert len(set(long)) == 2 and all(len(name) <= 200 for name in long)


@pytest.mark.parametrize(
    "path",
    ["args", "arg.x", "args.", "args..x", "args.x.", "result.x", "id", "", "args. x", 7, "args" + ".x" * 11],
)
def test_paths_that_are_no_keys(path: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check_paths(rule("a", "b", key=(path,)))
    assert caught.value.key == "key" and caught.value.value == path


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"x": "argument.x"}, "args of x"),
        ({"x": "args."}, "args of x"),
        ({"x": ("z", "result")}, "args of x"),
        ({"x": ("a", "results")}, "args of x"),
        ({"x": "result"}, "args of x"),
        ({"*": "args"}, "args of *"),
        ({"x": ("a", "result", "y")}, "args"),
        ({"x": 7}, "args"),
        ({f"x{n}": "args.p" for n in range(101)}, "args"),
    ],
)
def test_arguments_that_cannot_be_made(args: Any, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_paths(rule("a", "b", key=("args.p",), args=args))
    assert caught.value.key == named
    check_paths(rule("a", "b", key=("args.p",), args={"p": "args.p", "x": ("a", "args")}))


def test_a_key_names_each_path_once() -> None:
    with pytest.raises(ConfigError, match="each path once"):
        check_paths(rule("a", "b", key=("args.p", "args.p")))


@pytest.mark.parametrize(
    ("edges", "circle"),
    [
        ([("a", "a")], ["a", "a"]),
        ([("a", "b"), ("b", "a")], ["a", "b", "a"]),
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "y")], ["a", "b", "c", "a"]),
    ],
)
def test_circles_are_refused_and_drawn(edges: list[tuple[str, str]], circle: list[str]) -> None:
    found = [rule(parent, create=child, name=f"{parent}{child}") for parent, child in edges]
    with pytest.raises(RuleCycleError) as caught:
        refuse_cycles(found)
    assert caught.value.cycle == tuple(circle)
    assert caught.value.rules == tuple(f"{a}{b}" for a, b in itertools.pairwise(circle))
    assert " → ".join(circle) in str(caught.value)


def test_a_circle_through_one_of_several_parents() -> None:
    with pytest.raises(RuleCycleError):
        refuse_cycles([rule("a", "b", create="c", key=("args.p",)), rule("c", create="b", name="back")])


def test_many_ways_to_one_kind_are_no_circle() -> None:
    layers = [
        rule(f"{n}{x}", create=f"{n + 1}{y}", name=f"{n}{x}{y}")
        for n in range(40)
        for x in "ab"
        for y in "ab"
    ]
    refuse_cycles(layers)


def test_what_satisfies_a_rule() -> None:
    one = rule("a")
    assert [one.is_satisfied_by(state) for state in (State.COMPLETED, State.FAILED, State.CANCELLED)] == [
        True,
        False,
        False,
    ]
    assert replace(one, policy=DependencyPolicy.RUN).is_satisfied_by(State.CANCELLED)
