"""The kinds of an application with other defaults, for an app on another database that has a configuration of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from windlass.handlers.registry import Phase, Registry

if TYPE_CHECKING:
    from windlass.handlers.phase_defaults import Defaults
    from windlass.schedules.code import CodeSchedule


class BoundRegistry(Registry):
    """A registry that follows another one: the same kinds, schedules, rules, hooks and middleware, also those that are defined later.

    Retry policies, time limits, processors and limits of payloads that a phase does not set come from ``defaults``.
    """

    def __init__(self, origin: Registry, defaults: Defaults) -> None:
        super().__init__(defaults=defaults)
        self._followed = origin
        self._schedules = origin._schedules
        self.rules = origin.rules
        self.submit_hooks = origin.submit_hooks
        self.middleware = origin.middleware
        self.enqueue_rule = origin.enqueue_rule
        origin.on_defined(self.adopt)

    @property
    def origin(self) -> Registry:
        return self._followed

    def define(self, kind: str, handler: Any, **options: Any) -> Phase:
        """Define the phase in the registry that is followed; returns it with the defaults of this one."""
        return self._phases[self._followed.define(kind, handler, **options).name]

    @property
    def schedules(self) -> list[CodeSchedule]:
        return [replace(item, phase=self._phases[item.phase.name]) for item in self._followed.schedules]
