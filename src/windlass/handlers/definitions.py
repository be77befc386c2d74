"""Puts the schedules and rules that code defines into the database, when a worker starts or ``app.sync()`` is called."""

from __future__ import annotations

from typing import NamedTuple

from windlass.features import Store
from windlass.handlers.registry import Registry
from windlass.model import Defined


class Synced(NamedTuple):
    """The result of ``sync`` for an application's schedules and rules."""

    schedules: Defined
    rules: Defined


def sync(store: Store, registry: Registry) -> Synced:
    """Make the definitions in the database those of this code. If they are the same already, nothing is written. Mistakes of either are
    found before anything is written."""
    rules = registry.rules.resolved(registry)
    schedules = [item.resolved() for item in registry.schedules]
    modules = registry.modules
    return Synced(
        rules=store.rules.define(rules, modules | registry.rules.modules),
        schedules=store.schedules.define(schedules, modules),
    )
