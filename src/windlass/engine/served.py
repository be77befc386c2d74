"""Selects the phases that an engine serves."""

from __future__ import annotations

from windlass.errors import ConfigError, did_you_mean
from windlass.handlers.registry import Phase, Registry
from windlass.settings import Settings


def served(registry: Registry, settings: Settings) -> dict[str, Phase]:
    """Return the phases that an engine with these settings serves; ``ConfigError`` for undefined names."""
    known = registry.phases
    wanted = settings.phases if settings.phases is not None else tuple(known)
    for key, names in (("phases", wanted), ("processors", tuple(settings.processors))):
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ConfigError(
                    key, name, f"one of the phases that are defined: {listed}{did_you_mean(name, known)}"
                )
    return {name: known[name] for name in known if name in wanted}
