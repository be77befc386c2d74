"""Exceptions of a child process: converted to a message there, and back to an exception here.

Signals (``Retry``, ``Fail``, ``Cancel``, ``LeaseLost``) keep their type. Any other exception becomes a ``RemoteError``. Retry policies may
check the exception, so it is also an instance of the original class if this process has loaded that class, and has the original's simple
attributes; the constructor of that class is not called.
"""

from __future__ import annotations

import functools
import math
import sys
from datetime import timedelta
from typing import Any

from windlass.arguments.importable import AS_MAIN, MAIN
from windlass.arguments.json_checks import explain, text_of
from windlass.engine.job_errors import describe
from windlass.engine.processes.wire import Message
from windlass.errors import LeaseLost
from windlass.model import JobError
from windlass.model.signals import STOPPED, BadResult, Cancel, Fail, Retry

MOST_FACTS, LONGEST_FACT = 20, 1_000


class RemoteError(Exception):
    """An exception that a handler raised in a child process."""

    windlass_error: JobError
    windlass_bases: tuple[tuple[str, str], ...]
    """The modules and names of all its classes in the child: retry policies compare them."""

    def __str__(self) -> str:
        return self.windlass_error.message


def to_message(error: BaseException, *, asked: bool) -> Message:
    """Return an exception as JSON; ``asked``: the job was asked to stop."""
    match error:
        case LeaseLost():
            return {"how": "lost", "message": explain(error)}
        case Cancel():
            return {"how": "cancel", "reason": text_of(error.reason)}
        case BadResult():
            return {"how": "refused", "code": error.code, "message": error.message}
        case Fail():
            return {"how": "fail", "code": text_of(error.code), "message": text_of(error.message)}
        case Retry():
            after = error.after.total_seconds() if isinstance(error.after, timedelta) else None
            return {
                "how": "retry",
                "message": text_of(error.message),
                "after": after,
                "counted": bool(error.counted),
            }
        case _:
            described = describe(error)
            return {
                "how": "stopped" if asked and isinstance(error, STOPPED) else "raised",
                "type": described.type,
                "code": described.code,
                "message": described.message,
                "traceback": described.traceback,
                "bases": [[cls.__module__, cls.__qualname__] for cls in type(error).__mro__],
                "facts": _facts(error),
            }


def from_message(message: Message) -> BaseException:
    """Return the exception that ``to_message`` described."""
    match message["how"]:
        case "lost":
            return LeaseLost(message["message"])
        case "cancel":
            return Cancel(message["reason"])
        case "fail":
            return Fail(message["code"], message["message"])
        case "retry":
            after = message["after"]
            if after is not None:
                after = max(0.0, after)  # the attribute may have been changed
            return Retry(message["message"], after=after, counted=message["counted"])
        case _:
            return _remote_error(message)


def error_of(error: BaseException) -> JobError | None:
    """The child's description of an exception; None for exceptions of this process."""
    return error.windlass_error if isinstance(error, RemoteError) else None


def _remote_error(message: Message) -> RemoteError:
    error = RemoteError()
    bases = tuple((MAIN if module == AS_MAIN else module, qualname) for module, qualname in message["bases"])
    for module, qualname in bases:
        cls = _loaded(module, qualname)
        if cls is None:
            continue
        if cls is Exception:
            break
        try:
            both: Any = type(cls.__name__, (RemoteError, cls), {"__module__": cls.__module__})
            error = both.__new__(both)
            break
        except Exception:  # noqa: BLE001, S112  a class that takes no second base, or no instance without arguments
            continue
    error.windlass_error = JobError(
        type=message["type"], code=message["code"], message=message["message"], traceback=message["traceback"]
    )
    error.windlass_bases = bases
    for name, value in message["facts"].items():
        try:
            setattr(error, name, value)
        except Exception:  # noqa: BLE001, S112  the class's own __setattr__ may refuse
            continue
    return error


def _loaded(module: str, qualname: str) -> type[Exception] | None:
    try:
        found: Any = functools.reduce(getattr, qualname.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _facts(error: BaseException) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = {"errno": error.errno} if isinstance(error, OSError) else {}
        facts |= vars(error)
    except Exception:  # noqa: BLE001  a __dict__ of the user's own
        return {}
    simple = {name: value for name, value in facts.items() if _is_simple(value)}
    for own in ("windlass_error", "windlass_bases"):
        simple.pop(own, None)
    return dict(list(simple.items())[:MOST_FACTS])


def _is_simple(value: Any) -> bool:
    if type(value) is int:
        return abs(value) < 2**63
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) is bool or (type(value) is str and len(value) <= LONGEST_FACT)
