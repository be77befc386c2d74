"""What the environment says about servers, read when asked (never at import)."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from chaos.profile import PLAIN, PROFILES

SOURCES = {"all": ("local", "wheel"), "local": ("local",), "wheel": ("wheel",), "none": ()}


def sources(variable: str) -> tuple[str, ...]:
    """The places to look in, as WINDLASS_TEST_PG or WINDLASS_TEST_REDIS restricts them."""
    value = os.environ.get(variable, "all")
    if value not in SOURCES:
        raise pytest.UsageError(f"{variable}={value!r}: use one of {', '.join(SOURCES)}")
    return SOURCES[value]


def profile() -> str:
    """How the sessions of PostgreSQL are set, as WINDLASS_TEST_PG_PROFILE says."""
    value = os.environ.get("WINDLASS_TEST_PG_PROFILE", PLAIN)
    if value not in PROFILES:
        raise pytest.UsageError(f"WINDLASS_TEST_PG_PROFILE={value!r}: use one of {', '.join(PROFILES)}")
    return value


def is_required() -> bool:
    return os.environ.get("WINDLASS_REQUIRE_REAL") == "1"


def missing(what: str, cure: str) -> NoReturn:
    """End the test that needs an absent server: a failure under ./dev test, a skip (with a banner) elsewhere."""
    reason = f"no {what} server: {cure}"
    if is_required():
        pytest.fail(f"{reason} (WINDLASS_REQUIRE_REAL=1 forbids skipping)", pytrace=False)
    pytest.skip(reason)
