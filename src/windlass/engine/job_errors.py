"""Exceptions of handlers as data, as a failed attempt stores them."""

from __future__ import annotations

import traceback

from windlass.arguments.json_checks import explain
from windlass.errors import WindlassError
from windlass.model import JobError


def describe(error: BaseException) -> JobError:
    """Return an exception as data, even if its own attributes raise. An exception of a child process carries its description."""
    try:
        return _described(error)
    except BaseException as broken:  # noqa: BLE001  an attribute or a property of a user's exception raised
        return undescribable(error, broken)


def undescribable(error: BaseException, why: BaseException) -> JobError:
    """Return a description of an exception whose attributes raised ``why``."""
    name = _class_name(error)
    message = f"{name}, which cannot be described: its attributes raised {_class_name(why)}"
    return JobError(type=name, code="exception", message=message)


def _class_name(error: BaseException) -> str:
    try:
        return str(type(error).__name__)
    except BaseException:  # noqa: BLE001  a metaclass of the user's own
        return "an exception"


def _described(error: BaseException) -> JobError:
    known = getattr(error, "windlass_error", None)
    if isinstance(known, JobError):
        return known
    code = error.code if isinstance(error, WindlassError) else "exception"
    try:
        trace = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001  __str__ or __cause__ of a user's exception raised
        trace = "the traceback could not be formatted"
    return JobError(
        type=type(error).__name__, code=code, message=explain(error), traceback=trace, exception=error
    )
