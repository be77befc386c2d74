"""An exception of a child process: told as data there, rebuilt here.

Answers (``Retry``, ``Fail``, ``Cancel``, ``LeaseLost``) come back as what they are. Any other exception comes back as a ``RemoteError``.
Retry policies may look at the exception, so it is also an instance of the original's class where this process has that class loaded, and
carries the original's simple attributes; the constructor of that class is not called.
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
    """What a handler raised in a child process."""

    windlass_told: JobError

    def __str__(self) -> str:
        return self.windlass_told.message


def tell(error: BaseException, *, asked: bool) -> Message:
    """An exception as JSON; ``asked`` says that the job was asked to stop."""
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
            told = describe(error)
            return {
                "how": "stopped" if asked and isinstance(error, STOPPED) else "raised",
                "type": told.type,
                "code": told.code,
                "message": told.message,
                "traceback": told.traceback,
                "bases": [[cls.__module__, cls.__qualname__] for cls in type(error).__mro__],
                "facts": _facts(error),
            }


def rebuild(told: Message) -> BaseException:
    """The exception that ``tell`` described."""
    match told["how"]:
        case "lost":
            return LeaseLost(told["message"])
        case "cancel":
            return Cancel(told["reason"])
        case "fail":
            return Fail(told["code"], told["message"])
        case "retry":
            after = told["after"]
            if after is not None:
                after = max(0.0, after)  # it may have been changed after it was made
            return Retry(told["message"], after=after, counted=told["counted"])
        case _:
            return _stand_in(told)


def told_by(error: BaseException) -> JobError | None:
    """How the child described an exception; None for exceptions of this process."""
    return error.windlass_told if isinstance(error, RemoteError) else None


def _stand_in(told: Message) -> RemoteError:
    error = RemoteError()
    for module, qualname in told["bases"]:
        cls = _loaded(MAIN if module == AS_MAIN else module, qualname)
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
    error.windlass_told = JobError(
        type=told["type"], code=told["code"], message=told["message"], traceback=told["traceback"]
    )
    for name, value in told["facts"].items():
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
    simple.pop("windlass_told", None)
    return dict(list(simple.items())[:MOST_FACTS])


def _is_simple(value: Any) -> bool:
    if type(value) is int:
        return abs(value) < 2**63
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) is bool or (type(value) is str and len(value) <= LONGEST_FACT)
