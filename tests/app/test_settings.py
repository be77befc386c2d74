"""Settings: every number can be changed, and a bad one is named with what is allowed."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.settings import PROCESSORS, TIME_LIMIT, Settings


def test_defaults_hold_together() -> None:
    made = Settings()
    assert (made.lease, made.heartbeat, made.margin, made.crash_cap, made.death_cap) == (
        30.0,
        10.0,
        5.0,
        3,
        10,
    )
    assert (made.capacity, made.per_cycle, made.health) == (1000, 3, 30.0)


def test_gentle_has_the_figures_of_systems_that_only_poll() -> None:
    """A scan a minute for ten jobs that nobody touched for half a minute; five minutes until a job counts as stuck, and as long between
    two looks for stuck ones; the rest is the same as without a profile."""
    made = Settings.gentle()
    assert (made.lease, made.recovery) == (300.0, 300.0)
    assert (made.scan, made.scan_unheard, made.page, made.quiet, made.prefetch) == (
        60.0,
        60.0,
        10,
        30.0,
        0.0,
    )
    assert (made.capacity, made.per_cycle, made.cycle, made.health) == (1000, 3, 5.0, 30.0)
    assert (PROCESSORS, TIME_LIMIT) == (10, 300.0)
    assert Settings.gentle(scan=7.0).scan == 7.0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"lease": 0}, "lease"),
        ({"lease": "30"}, "lease"),
        ({"lease": True}, "lease"),
        ({"lease": 3}, "lease"),
        ({"heartbeat": 25.0}, "lease"),
        ({"margin": -1}, "margin"),
        ({"crash_cap": 0}, "crash_cap"),
        ({"death_cap": 0}, "death_cap"),
        ({"page": 1.5}, "page"),
        ({"page": 20_000}, "page"),
        ({"capacity": 0}, "capacity"),
        ({"per_cycle": 0}, "per_cycle"),
        ({"processors": {"a": 0}}, "processors.a"),
        ({"max_concurrent_calls": 0}, "max_concurrent_calls"),
        ({"memory_limit": 1000}, "memory_limit"),
        ({"grace": -0.1}, "grace"),
        ({"lease": float("inf")}, "lease"),
        ({"grace": float("nan")}, "grace"),
        ({"phases": "welcome"}, "phases"),
        ({"phases": ()}, "phases"),
        ({"phases": ("welcome", 3)}, "phases"),
        ({"processors": 3}, "processors"),
        ({"scan": 1e-9}, "scan"),
        ({"lease": 10**400}, "lease"),
        ({"quiet": 1e11}, "quiet"),
        ({"rollup_days": 1e300}, "rollup_days"),
        ({"erase_principal_after": 1e300}, "erase_principal_after"),
        ({"erase_principal_after": "1"}, "erase_principal_after"),
        ({"fail_unserved": 0}, "fail_unserved"),
    ],
)
def test_a_bad_setting_is_named_with_its_value(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(**changes)
    assert caught.value.key == key
    with pytest.raises(ConfigError):
        Settings().changed(**changes)


def test_a_lease_that_is_too_short_is_told_with_what_it_must_hold() -> None:
    """Whichever of the three was given: none of them is wrong by itself."""
    told = "lease = 3 cannot be used: it must be more than heartbeat (10 s) + margin (5 s); raise it, or lower those"
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        Settings(lease=3)
    with pytest.raises(ConfigError, match=r"^lease = 60 .* heartbeat \(59 s\) \+ margin \(5 s\)"):
        Settings(lease=60).changed(heartbeat=59)


NUMBERS = [name for name, value in asdict(Settings()).items() if isinstance(value, int | float)]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_an_upper_bound_that_is_told(name: str) -> None:
    """One that no date and no timer can bear is not met with an OverflowError at the start."""
    with pytest.raises(ConfigError, match=rf"{name} = 1e\+300 cannot be used: .* to [0-9,]+"):
        Settings().changed(**{name: 1e300})


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"leese.*one of .*lease.*; did you mean lease\?$") as caught:
        Settings().changed(leese=3)
    assert caught.value.value == "leese"
