"""Reporters of errors, such as Sentry: a function that is called for each attempt that failed.

    def to_sentry(error: BaseException, details: Mapping[str, Any]) -> None:
        with sentry_sdk.new_scope() as scope:
            scope.set_context("job", dict(details))
            sentry_sdk.capture_exception(error)

    report_errors(app, to_sentry)

The function is called where the handler ran: in its thread, on its event loop or in its child process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError
from windlass.handlers.middleware import CurrentAttempt
from windlass.model.signals import Retry
from windlass.observe import events
from windlass.observe.emit import emit

Capture = Callable[[BaseException, Mapping[str, Any]], Any]


def report_errors(app: App, capture: Capture, *, only_final: bool = False) -> None:
    """Have ``capture(exception, details)`` called once for each attempt that failed; with ``only_final`` only for those that failed their job.

    ``details`` has the fields of the job and its error (``details_of``), never its arguments. An attempt that a handler repeats by ``Retry``
    has not failed, unless it was the last one. A reporter that raises changes nothing about the job, and is logged once
    (``reporter.failed``).
    """
    given: object = capture
    if not callable(given) or is_async(capture):
        raise ConfigError(
            "capture", given, "a plain function that takes an exception and a mapping of details"
        )
    name = getattr(capture, "__qualname__", type(capture).__qualname__)
    is_known_to_fail = False

    @contextmanager
    def error_reporter(attempt: CurrentAttempt) -> Iterator[None]:
        nonlocal is_known_to_fail
        try:
            yield
        finally:
            if (error := attempt.exception) is not None and _has_failed(attempt, only_final):
                try:
                    capture(error, details_of(attempt))
                except Exception as broken:  # noqa: BLE001  the job's outcome does not depend on its report
                    if not is_known_to_fail:
                        is_known_to_fail = True
                        emit(events.REPORTER_FAILED, exc_info=broken, reporter=name, reason=explain(broken))

    error_reporter.__qualname__ = f"error_reporter({name})"
    app.middleware(error_reporter)


def details_of(attempt: CurrentAttempt) -> dict[str, Any]:
    """The fields of a failed attempt: those of its log lines, its outcome and its error's type and code."""
    error = attempt.error
    return {
        "job_id": attempt.job_id,
        "kind": attempt.kind,
        "phase": attempt.phase,
        "attempt": attempt.attempt,
        "max_attempts": attempt.max_attempts,
        "correlation_id": attempt.correlation_id,
        "outcome": attempt.outcome,
        "is_final": attempt.is_final,
        "error_type": None if error is None else error.type,
        "error_code": None if error is None else error.code,
    }


def _has_failed(attempt: CurrentAttempt, only_final: bool) -> bool:
    if attempt.outcome == "failed":
        return True
    return attempt.outcome == "retried" and not only_final and not isinstance(attempt.exception, Retry)
