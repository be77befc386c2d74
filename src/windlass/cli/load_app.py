"""Loads an App from ``module:attribute``, with a clear error for each way that can fail."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import windlass
from windlass.errors import ConfigError

if TYPE_CHECKING:
    from windlass.app.app import App

_OURS = str(Path(windlass.__file__).parent)
_PYTHONS = str(Path(os.__file__).parent)
_INSTALLED = {"site-packages", "dist-packages"}
PLACES = 3


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
    with _explained(target, module_name):
        module = importlib.import_module(module_name)
    found: Any = module
    with _explained(target, module_name):  # a module may make its app when it is first read
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


@contextmanager
def _explained(target: str, name: str) -> Iterator[None]:
    """Turn what importing the module ``name`` raises into one error with the cause and its place."""
    try:
        yield
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
        place = _place(error)
        if isinstance(error, ConfigError) and not place:
            raise  # not of a line of the user's: it names the setting and its cure
        problem = f"importing it raised {type(error).__name__}: {error}{f' ({place})' if place else ''}"
        raise ConfigError("app", target, f"one that can be imported: {problem}") from error


def _place(error: Exception) -> str:
    """The user's own code in the traceback of an error, in short: the last three places, the one that raised last; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _OURS, _PYTHONS))
        and not _INSTALLED & set(Path(frame.filename).parts)
    ]
    return " > ".join(places[-PLACES:])
