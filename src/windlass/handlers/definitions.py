"""What code defines and the database keeps: schedules and rules, put there by a worker that starts, or by ``app.sync()``."""

from __future__ import annotations

from typing import NamedTuple

from windlass.features import Store
from windlass.handlers.registry import Registry
from windlass.model import Defined


class Synced(NamedTuple):
    """What became of an application's schedules and rules."""

    schedules: Defined
    rules: Defined


def sync(store: Store, registry: Registry) -> Synced:
    """Make the database say what this code says. Where it says so already, nothing is written. Mistakes of either are found before
    anything is written."""
    rules = registry.rules.resolved(registry)
    schedules = [item.resolved() for item in registry.schedules]
    modules = registry.modules
    return Synced(
        rules=store.rules.define(rules, modules | registry.rules.modules),
        schedules=store.schedules.define(schedules, modules),
    )
