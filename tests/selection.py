"""Which of the collected tests run: on which databases, in the whole suite, with --quick and with --long.

The whole suite has to end within eight minutes on two cores, the quick set within two. Markers say what a test is about, and this module
what follows from it; pyproject.toml explains each marker.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from chaos.profile import HOSTILE
from tests.servers import choice, postgres

HERE = Path(__file__).resolve().parent
QUICK = frozenset(
    {
        "app",
        "arguments",
        "conformance",
        "dependencies",
        "docs",
        "engine",
        "expiry",
        "handlers",
        "headers",
        "keys",
        "limits",
        "model",
        "observe",
        "principals",
        "rules",
        "schedules",
        "store",
        "submit",
        "testing",
    }
)
"""Folders whose tests are in the quick set (WINDLASS_TEST_QUICK): what a version of Python can break. Tests marked slow are not in it. Tests of
the store run on SQLite; those marked older_postgres (the core verbs) run on the newest PostgreSQL too, like the engine's."""
NOT_QUICK = frozenset(
    {
        "conformance/test_guards_bystanders",
        "conformance/test_guards_dependencies",
        "conformance/test_guards_fence",
        "conformance/test_guards_idle",
        "conformance/test_guards_instances",
        "conformance/test_guards_rule_rows",
        "conformance/test_guards_rules",
        "conformance/test_guards_schema",
        "conformance/test_guards_verbs",
        "conformance/test_odd_rows",
        "conformance/test_sqlite_log",
        "dependencies/test_fan_out_interleavings",
        "dependencies/test_interleavings",
        "docs/test_postgres_roles",
        "docs/test_runnable",
        "engine/test_canary",
        "engine/test_counting",
        "engine/test_doors",
        "engine/test_isolated",
        "engine/test_lost_leases",
        "engine/test_principal_tokens",
        "engine/test_process_scripts",
        "engine/test_process_stopping",
        "engine/test_process_store",
        "limits/test_interleavings",
        "limits/test_locked_rows",
        "limits/test_rates",
        "rules/test_interleavings",
        "rules/test_new_rule_interleavings",
        "schedules/test_cron",
        "schedules/test_interleavings",
        "submit/test_waiting",
    }
)
"""Modules of those folders that are not in it: what takes longest for the least that another Python could break (guards of the SQL, an
oracle, many processes, two sessions that meet)."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules that are not in the quick set are not even imported."""
    if not os.environ.get("WINDLASS_TEST_QUICK"):
        return None
    name = f"{collection_path.parent.name}/{collection_path.stem}"
    is_below = collection_path.parent == HERE
    return True if (is_below and collection_path.name not in QUICK) or name in NOT_QUICK else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=left_out)


def _is_left_out(item: pytest.Item) -> bool:
    is_quick = bool(os.environ.get("WINDLASS_TEST_QUICK"))
    if item.get_closest_marker("long") and not os.environ.get("WINDLASS_TEST_LONG"):
        return True
    if item.get_closest_marker("slow") and is_quick:
        return True
    if item.get_closest_marker("owner") and choice.profile() == HOSTILE:
        return True
    if "migrations" in item.path.parts:
        return False
    params = getattr(getattr(item, "callspec", None), "params", {})
    databases = {value for value in params.values() if isinstance(value, str)}
    return bool(databases & _unwanted_databases(item, is_quick=is_quick))


def _unwanted_databases(item: pytest.Item, *, is_quick: bool) -> set[str]:
    """The parameters of fixtures by which a test names databases that it does not run on."""
    found = postgres.ids()
    is_core = item.get_closest_marker("older_postgres") is not None
    if item.get_closest_marker("one_database") and _is_one_enough(item):
        return {"postgresql", *found}
    if is_quick and not is_core:
        return set(found)
    if os.environ.get("WINDLASS_TEST_PG_VERSIONS") == "all":
        return set()
    is_on_the_oldest = is_core and not is_quick and not (_is_short() and item.get_closest_marker("slow"))
    return set(found[1:-1] if is_on_the_oldest else found[1:])


def _is_short() -> bool:
    return not os.environ.get("WINDLASS_TEST_LONG")


def _is_one_enough(item: pytest.Item) -> bool:
    if os.environ.get("WINDLASS_TEST_LONG") or os.environ.get("WINDLASS_TEST_PG_PROFILE"):
        return False
    name = getattr(item, "originalname", item.name)
    return f"{item.path.relative_to(HERE.parent)}::{name}" not in _proofs()


@cache
def _proofs() -> frozenset[str]:
    """The tests that docs/guarantees.md names; each runs on both databases."""
    text = (HERE.parent / "docs" / "guarantees.md").read_text("utf-8")
    return frozenset(re.findall(r"`(tests/[^`]+::\w+)`", text))
