"""Settings: every number can be changed, and a bad one is named with what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.settings import Settings


def test_defaults_hold_together() -> None:
    made = Settings()
    assert (made.lease, made.heartbeat, made.margin, made.crash_cap) == (30.0, 10.0, 5.0, 3)
    assert (made.capacity, made.per_cycle, made.health) == (1000, 3, 30.0)


def test_gentle_has_the_figures_of_systems_that_only_poll() -> None:
    made = Settings.gentle()
    assert (made.lease, made.scan, made.batch, made.quiet) == (300.0, 60.0, 10, 30.0)
    assert Settings.gentle(scan=7.0).scan == 7.0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"lease": 0}, "lease"),
        ({"lease": "30"}, "lease"),
        ({"lease": True}, "lease"),
        ({"heartbeat": 25.0}, "heartbeat"),
        ({"margin": -1}, "margin"),
        ({"crash_cap": 0}, "crash_cap"),
        ({"batch": 1.5}, "batch"),
        ({"batch": 20_000}, "batch"),
        ({"capacity": 0}, "capacity"),
        ({"per_cycle": 0}, "per_cycle"),
        ({"processors": {"a": 0}}, "processors of a"),
        ({"max_concurrent_calls": 0}, "max_concurrent_calls"),
        ({"memory_limit": 1000}, "memory_limit"),
        ({"grace": -0.1}, "grace"),
        ({"lease": float("inf")}, "lease"),
        ({"grace": float("nan")}, "grace"),
        ({"phases": "welcome"}, "phases"),
        ({"phases": ("welcome", 3)}, "phases"),
        ({"processors": 3}, "processors"),
    ],
)
def test_a_bad_setting_is_named_with_its_value(changes: dict[str, Any], key: str) -> None:
    """K4."""
    with pytest.raises(ConfigError) as caught:
        Settings(**changes)
    assert caught.value.key == key
    with pytest.raises(ConfigError):
        Settings().changed(**changes)


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"leas.*one of .*lease") as caught:
        Settings().changed(leas=3)
    assert caught.value.value == "leas"
