"""Selects the phases that an engine serves: by the names of phases, kinds and groups, and by patterns of names.

report*               every phase or kind whose name begins with "report"
sites                 all phases of the kind "sites"
sites:model-analysis  one phase
heavy                 what the setting ``groups`` has under that name
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from windlass.errors import ConfigError, did_you_mean
from windlass.handlers.registry import Phase, Registry
from windlass.settings import Settings

_WILD = frozenset("*?[")


def served(registry: Registry, settings: Settings) -> dict[str, Phase]:
    """Return the phases that an engine with these settings serves; ``ConfigError`` for names that select nothing."""
    known = registry.phases
    if settings.phases is None:
        return dict(known)
    wanted = {name for item in settings.phases for name in select(registry, settings.groups, item)}
    return {name: known[name] for name in known if name in wanted}


def resolved(registry: Registry, settings: Settings) -> Settings:
    """Return the settings with a number of processors for each phase that they select: a name counts before a kind, a group or a pattern
    that selects the same phase, and of these the later before the earlier."""
    counts: dict[str, int] = {}
    for item, count in settings.processors.items():
        counts |= dict.fromkeys(select(registry, settings.groups, item, "processors"), count)
    exact = {name: count for name, count in settings.processors.items() if name in counts}
    counts |= exact
    return settings if counts == settings.processors else settings.changed(processors=counts)


def select(
    registry: Registry, groups: Mapping[str, Sequence[str]], item: str, key: str = "phases"
) -> list[str]:
    """Return the phases that one name or pattern selects, at least one; ``key`` is the setting that an error names."""
    group = groups.get(item)
    if group is None:
        return _named(registry, item, key, item, groups)
    if _matching(registry, item):
        raise ConfigError(
            f"groups.{item}", list(group), because="a kind or a phase has the same name; rename the group"
        )
    return [name for part in group for name in _named(registry, part, f"groups.{item}", part, ())]


def _named(registry: Registry, item: str, key: str, shown: str, groups: Iterable[str]) -> list[str]:
    found = _matching(registry, item)
    if not found:
        raise _unknown(registry, key, shown, list(groups))
    return found


def _matching(registry: Registry, item: str) -> list[str]:
    """Return the phases that a name or a pattern stands for: a phase, all phases of a kind, or all that match."""
    known = registry.phases
    if item in known:
        return [item]
    if (kind := registry.kind(item)) is not None:
        return [phase.name for phase in kind.phases]
    if _WILD.isdisjoint(item):
        return []
    return [name for name, phase in known.items() if fnmatchcase(name, item) or fnmatchcase(phase.kind, item)]


def _unknown(registry: Registry, key: str, item: str, groups: list[str]) -> ConfigError:
    """The error for a name or a pattern that selects nothing; it lists what there is."""
    phases = list(registry.phases)
    kinds = [kind.name for kind in registry if kind.name not in registry.phases]
    lists = [f"phases: {', '.join(phases) or 'none'}"]
    if kinds:
        lists.append(f"kinds of several phases: {', '.join(kinds)}")
    if groups:
        lists.append(f"groups: {', '.join(groups)}")
    what = (
        "a pattern that matches a phase or a kind" if not _WILD.isdisjoint(item) else "a name that is defined"
    )
    near = did_you_mean(item, [*phases, *kinds, *groups])
    return ConfigError(key, item, f"{what}; {'; '.join(lists)}{near}")
