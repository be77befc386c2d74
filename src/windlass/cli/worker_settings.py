"""The settings of ``windlass worker``: those of the app, with --phase, --grace and --set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.settings import Settings

_HAVE_OPTIONS = {
    "phases": "--phase NAME",
    "processors": "--phase NAME=N",
    "groups": "[worker.groups] of windlass.toml",
}


def worker_settings(app: App, phases: Sequence[str], grace: float | None, changes: Sequence[str]) -> Settings:
    """The settings of the app, changed by the options of the command line."""
    from windlass.engine.served import resolved, select
    from windlass.errors import ConfigError

    settings = app.settings
    wanted: dict[str, Any] = {}
    if phases:
        counts: dict[str, int] = {}
        settings = resolved(app.parts.registry, settings)
        for item in phases:
            name, equals, number = item.rpartition("=") if "=" in item else (item, "", "")
            if equals and not (number.isascii() and number.isdigit()):
                raise ConfigError("phase", item, "NAME or NAME=N with a whole number of processors")
            chosen = select(app.parts.registry, settings.groups, name, "phase")
            if equals:
                counts |= dict.fromkeys(chosen, int(number))
        wanted["phases"] = tuple(item.rpartition("=")[0] if "=" in item else item for item in phases)
        wanted["processors"] = {**settings.processors, **counts}
    if grace is not None:
        wanted["grace"] = grace
    for item in changes:
        name, value = _change(item)
        wanted[name] = value
    return settings.changed(**wanted)


def _change(item: str) -> tuple[str, Any]:
    """The name of a setting and its value, from NAME=VALUE or KEY=VALUE: the type of the setting says how the text is read."""
    from windlass.errors import ConfigError, check_names
    from windlass.setting_keys import KNOWN, SETTING_KEYS
    from windlass.settings import RANGES

    given, equals, text = item.partition("=")
    if not equals:
        raise ConfigError("set", item, "NAME=VALUE, for example lease=60 or worker.lease=60")
    names = {key: name for name, key in SETTING_KEYS.items()}
    if given in KNOWN and given not in names:
        raise ConfigError("set", given, because=_elsewhere(given))
    name = names.get(given, given)
    if name in _HAVE_OPTIONS:
        raise ConfigError(
            "set", item, f"a number, a duration or a text; for this setting use {_HAVE_OPTIONS[name]}"
        )
    check_names("set", [name], [*SETTING_KEYS, *names])
    known = KNOWN[SETTING_KEYS[name]]
    # A name has the unit of the setting, a key that of the key: chunk_step is seconds, background.chunk.retry.step_ms is milliseconds.
    allowed = known if given == known.key else RANGES.get(name, known)
    try:
        value = allowed.read(text)
    except (ValueError, TypeError):
        raise ConfigError(given, text, f"{allowed.allowed} (flag --set)") from None
    return name, value / 1000 if given.endswith("_ms") and value is not None else value


def _elsewhere(key: str) -> str:
    """Where to set a setting that is not of a worker alone."""
    from windlass.setting_keys import KNOWN, URL

    if key == URL:
        return "use --url URL"
    variable = KNOWN[key].variables[0]
    return f"--set is for settings of an instance; set this one in code, in windlass.toml, or by {variable}"
