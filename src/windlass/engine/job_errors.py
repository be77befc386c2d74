"""Exceptions of handlers as data: what a failed attempt stores of them."""

from __future__ import annotations

import traceback

from windlass.arguments.json_checks import explain
from windlass.errors import WindlassError
from windlass.model import JobError


def describe(error: BaseException) -> JobError:
    """Return an exception as data, also where its own attributes raise. One of a child process brings its description along."""
    try:
        return _described(error)
    except BaseException as broken:  # noqa: BLE001  an attribute or a property of a user's exception raised
        return undescribable(error, broken)


def undescribable(error: BaseException, why: BaseException) -> JobError:
    """Return what is known of an exception whose attributes raised ``why``."""
    name = _class_name(error)
    message = f"{name}, which cannot be looked at: doing so raised {_class_name(why)}"
    return JobError(type=name, code="exception", message=message)


def _class_name(error: BaseException) -> str:
    try:
        return str(type(error).__name__)
    except BaseException:  # noqa: BLE001  a metaclass of the user's own
        return "an exception"


def _described(error: BaseException) -> JobError:
    known = getattr(error, "windlass_told", None)
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
