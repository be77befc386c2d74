"""The address of a handler for another process: the module to import and the name in it.

Nothing of a handler travels but its address, so a handler that has none (a function inside a function, a lambda, a partial) can only
run in the process that made it. The main script is a module like any other, but is never imported: the other process runs it under
another name, as multiprocessing does, so that ``if __name__ == "__main__"`` keeps out what starts the program.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass.errors import WindlassError

PHASE = "windlass_phase"
"""The attribute of what ``@app.job`` and ``@pipeline.phase`` leave in the module: the ``Phase`` they made."""

WRAP = "windlass_wrap"
"""The attribute with the function that wraps a handler, so that its parameters that are provided by type are supplied."""

USE_DATABASE = "windlass_use_database"
"""The attribute with the function that makes the handler's app open a database with these options."""

AUTHORITY = "windlass_authority"
"""The attribute with the ``Authority`` that says what its jobs may do."""

MAIN = "__main__"
AS_MAIN = "__windlass_main__"


@dataclass(frozen=True, slots=True)
class Address:
    """A handler by name."""

    module: str
    qualname: str


def why_not_importable(handler: Callable[..., Any]) -> str | None:
    """Why another process could not find this handler; None if its name shows no reason.

    Meant for the moment of definition: whether the name really leads to the handler is known once its module is loaded.
    """
    name = getattr(handler, "__qualname__", None)
    if not isinstance(name, str) or not isinstance(getattr(handler, "__module__", None), str):
        return "it is an object without a name of its own; use a function of a module"
    if inspect.ismethod(handler) and not inspect.isclass(handler.__self__):
        return f"{name} is bound to an object of this process; use a function of a module"
    if "<" in name:
        return f"{name} is made inside a function; define it at the top of a module"
    if handler.__module__ == MAIN and main_script() is None:
        return f"{name} was typed into an interactive session; put it into a file"
    return None


def locate(handler: Callable[..., Any]) -> Address | None:
    """The address of a handler; None if it has none, or its name leads to something else."""
    if why_not_importable(handler) is not None:
        return None
    module = sys.modules.get(handler.__module__)
    if module is None:
        return None
    address = Address(handler.__module__, handler.__qualname__)
    try:
        found = _walk(module, address.qualname)
    except AttributeError:
        return None
    return address if getattr(getattr(found, PHASE, None), "handler", found) == handler else None


def find(address: Address, main: Mapping[str, Any] | None) -> Any:
    """The object at an address, imported if need be; ``main`` is the other process's ``main_script()``."""
    if address.module != MAIN:
        return _walk(importlib.import_module(address.module), address.qualname)
    if main is None:
        raise WindlassError(
            f"{address.qualname} belongs to a main script that has no file; put it into a module"
        )
    return _walk(sys.modules.get(AS_MAIN) or _run_main(main), address.qualname)


def main_script() -> dict[str, str] | None:
    """How to run this process's main script elsewhere: its module name (``python -m``) or path; None if it has no file."""
    main = sys.modules.get(MAIN)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return {"name": str(spec.name)}
    path = getattr(main, "__file__", None)
    return {"path": str(path)} if path else None


def refuse_in_main_script() -> None:
    """Refuse to start an instance while a process that only needs a handler runs the main script for it."""
    if AS_MAIN in sys.modules and not _is_loaded(sys.modules[AS_MAIN]):
        raise WindlassError(
            "the main script starts an instance whenever it is loaded, also in the processes that only run its jobs; "
            'put what starts it under `if __name__ == "__main__":`'
        )


def _run_main(main: Mapping[str, Any]) -> ModuleType:
    if "name" in main:
        content = runpy.run_module(main["name"], run_name=AS_MAIN, alter_sys=True)
    else:
        content = runpy.run_path(main["path"], run_name=AS_MAIN)
    module = ModuleType(AS_MAIN)
    module.__dict__.update(content)
    module.__dict__["__windlass_loaded__"] = True
    sys.modules[AS_MAIN] = sys.modules[MAIN] = module
    return module


def _is_loaded(module: ModuleType) -> bool:
    return "__windlass_loaded__" in module.__dict__


def _walk(module: ModuleType, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), module)


def module_of(handler: Callable[..., Any]) -> str:
    """The module that a handler is in; a main script by the name it would be imported under, so that it is the same module whether
    it is run or served."""
    handler = function_of(handler)
    module = str(getattr(handler, "__module__", None) or type(handler).__module__)
    if module not in (MAIN, AS_MAIN):
        return module
    main = main_script() or {}
    if "name" in main:
        return main["name"].removesuffix(".__main__")
    return Path(main["path"]).stem if "path" in main else sys.modules[MAIN].__name__


def function_of(handler: Any) -> Any:
    """The function under partials, which belong to the module of functools."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler
