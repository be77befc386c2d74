"""Kinds and their registry: mistakes surface at definition."""

from __future__ import annotations

import pytest

from windlass.errors import ConfigError
from windlass.handlers.phase_options import Where
from windlass.handlers.registry import Registry
from windlass.model.retry import linear


def plain(user_id: int) -> str:
    return f"hello {user_id}"


async def coroutine(user_id: int) -> None: ...


def test_a_plain_kind_is_a_pipeline_of_one_phase() -> None:
    registry = Registry()
    phase = registry.define("welcome", plain)
    kind = registry.kind("welcome")
    assert kind is not None and kind.first is phase and kind.after("welcome") is None
    assert (phase.name, phase.label, phase.processors, phase.timeout, phase.retry.attempts) == (
        "welcome",
        "welcome",
        10,
        300.0,
        3,
    )


def test_phases_follow_each_other_and_first_ones_are_served_first() -> None:
    registry = Registry()
    registry.define("b", plain, label="one")
    registry.define("b", plain, label="two", processors=2, retry=linear(5), timeout=None)
    registry.define("a", plain, label="one")
    kind = registry.kind("b")
    assert kind is not None
    following = kind.after("b:one")
    assert following is not None and (following.name, following.label, following.retry.attempts) == (
        "b:two",
        "two",
        5,
    )
    assert list(registry.phases) == ["b:one", "a:one", "b:two"]
    assert registry.phase("b:two") is following and registry.phase("nope") is None
    assert [item.name for item in registry] == ["b", "a"] and len(registry) == 2


@pytest.mark.parametrize(
    ("kind", "label", "key"),
    [
        ("bad name!", None, "kind"),
        ("<lambda>", None, "kind"),
        ("", None, "kind"),
        ("x" * 201, None, "kind"),
        ("-x", None, "kind"),
        ("site", "fetch it", "phase"),
        ("site", "", "phase"),
        ("site", "x" * 196, "phase"),
    ],
)
def test_a_name_that_no_queue_can_have_is_refused_at_definition(
    kind: str, label: str | None, key: str
) -> None:
    """It was refused by the first enqueue, in production."""
    registry = Registry()
    with pytest.raises(ConfigError, match="a name of 1 to 200 letters") as caught:
        registry.define(kind, plain, label=label)
    assert caught.value.key == key and len(registry) == 0


def test_where_a_handler_runs_follows_from_what_it_is() -> None:
    registry = Registry()
    assert registry.define("a", coroutine).where is Where.LOOP
    assert registry.define("b", plain).where is Where.THREAD
    assert registry.define("c", plain, executor="process").where is Where.PROCESS


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": 1e300}, "timeout"),
        ({"max_waiting": "5", "label": "one"}, "max_waiting"),
        ({"processors": 0}, "processors"),
        ({"processors": 10**9}, "processors"),
        ({"executor": "cloud"}, "executor"),
    ],
)
def test_senseless_options_are_named(options: dict, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Registry().define("work", plain, **options)
    assert caught.value.key == key


def test_a_name_is_given_once() -> None:
    registry = Registry()
    registry.define("a", plain)
    with pytest.raises(ConfigError, match=r"plain \(.*\) has this name already"):
        registry.define("a", plain)
    registry.define("p", plain, label="x")
    with pytest.raises(ConfigError, match="has this name already"):
        registry.define("p", plain, label="x")
    with pytest.raises(ConfigError, match="has this name already"):
        registry.define("p", plain)


def test_an_async_handler_cannot_be_put_in_a_thread() -> None:
    with pytest.raises(ConfigError, match="async"):
        Registry().define("a", coroutine, executor="thread")
