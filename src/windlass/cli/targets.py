"""``module:attribute`` to an App, with an answer for each way it can go wrong."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.errors import ConfigError

if TYPE_CHECKING:
    from windlass.app import App


def load_app(target: str) -> App:
    """The app a target names, found from the current folder as Python would with ``-m``."""
    from windlass.app import App

    module_name, colon, attribute = target.partition(":")
    if not module_name or (colon and not attribute):
        raise ConfigError("app", target, "module:attribute, for example myproject.jobs:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(target, module_name)
    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        apps = [name for name, value in vars(module).items() if isinstance(value, App)]
        hint = f"; {module_name} has {', '.join(f'{module_name}:{name}' for name in apps)}" if apps else ""
        raise ConfigError("app", target, f"the name of a windlass.App{hint}")
    return found


def _import(target: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError("app", target, f"it imports {error.name!r}, which is not installed") from error
        raise ConfigError(
            "app",
            target,
            f"there is no module {name!r} here; start in the folder that holds it, or set PYTHONPATH",
        ) from error
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        raise ConfigError(
            "app", target, f"importing it raised {type(error).__name__}: {error} ({where})"
        ) from error
