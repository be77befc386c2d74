"""Loads an App from ``module:attribute``, with a clear error for each way that can fail."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import windlass
from windlass.errors import ConfigError

if TYPE_CHECKING:
    from windlass.app.app import App

_OURS = str(Path(windlass.__file__).parent)
_PYTHONS = str(Path(os.__file__).parent)


def load_app(target: str) -> App:
    """Load the app that a target names, from the current folder as Python does with ``-m``."""
    from windlass.app.app import App

    module_name, colon, attribute = target.partition(":")
    if not module_name or (colon and not attribute):
        raise ConfigError("app", target, "module:attribute, for example myproject.jobs:app")
    if module_name.endswith(".py") or "/" in module_name:
        meant = ".".join(part for part in module_name.removesuffix(".py").split("/") if part not in ("", "."))
        raise ConfigError("app", target, f"a module, not a file: {meant}:{attribute or 'app'}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(target, module_name)
    found: Any = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        raise ConfigError("app", target, f"the name of a windlass.App{_hint(module, found)}")
    return found


def _hint(module: Any, found: Any) -> str:
    from windlass.app.app import App

    apps = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, App)]
    if apps:
        return f"; {module.__name__} has {', '.join(apps)}"
    if callable(found):
        return ", and this is a function; make the app at the top of the module"
    return f", and {module.__name__} has none at its top"


def _import(target: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                "app",
                target,
                f"one that can be imported: it imports {error.name!r}, which is neither installed nor here; start in the folder that holds "
                f"it, or set PYTHONPATH",
            ) from error
        raise ConfigError(
            "app",
            target,
            f"a module that can be found: there is no module {name!r} here; start in the folder that holds it, or set PYTHONPATH",
        ) from error
    except Exception as error:
        problem = f"importing it raised {type(error).__name__}: {error} ({_place(error)})"
        raise ConfigError("app", target, f"one that can be imported: {problem}") from error


def _place(error: Exception) -> str:
    """The last line of the user's own code in the traceback of an error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(("<", _OURS, _PYTHONS))]
    place = (own or frames)[-1]
    return f"{Path(place.filename).name}:{place.lineno}"
