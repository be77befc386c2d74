"""Reporters of errors: called once for each failed attempt, and never able to change one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from tests.principals.captured import USER
from windlass import App, Cancel, Context, Fail, Retry
from windlass.errors import ConfigError
from windlass.integrations.error_reporter import report_errors
from windlass.model import NewJob, State
from windlass.model.retry import fixed
from windlass.testing import Sandbox


class Reports(list[tuple[BaseException, Mapping[str, Any]]]):
    """A small reporter."""

    def __call__(self, error: BaseException, details: Mapping[str, Any]) -> None:
        self.append((error, details))

    @property
    def short(self) -> list[tuple[str, Any, Any]]:
        return [(type(error).__name__, said["outcome"], said["attempt"]) for error, said in self]


def define(app: App) -> None:
    @app.job(retry=fixed(2, wait=1))
    def work(how: str, ctx: Context) -> None:
        match how:
            case "raise":
                raise ValueError("on purpose")
            case "fail":
                raise Fail("bad_order", "x")
            case "retry":
                raise Retry("not yet")
            case "cancel":
                raise Cancel("no need")
            case "once" if ctx.attempt == 1:
                raise OSError("away")


def run(app: App, *hows: str) -> None:
    with Sandbox(app) as box:
        for how in hows:
            box.app.enqueue("work", how=how)
            box.drain(advance=True)


def test_each_failed_attempt_is_reported_once_without_arguments() -> None:
    app, reports = App(), Reports()
    report_errors(app, reports)
    define(app)
    run(app, "raise", "fail", "retry", "cancel", "once", "good")
    assert reports.short == [
        ("ValueError", "retried", 1), ("ValueError", "failed", 2), ("Fail", "failed", 1), ("Retry", "failed", 2),
        ("OSError", "retried", 1),
    ]  # fmt: skip
    error, details = reports[0]
    assert error.__traceback__ is not None
    assert {name: details[name] for name in details if name not in ("job_id", "correlation_id")} == {
        "kind": "work",
        "phase": "work",
        "attempt": 1,
        "max_attempts": 2,
        "outcome": "retried",
        "is_final": False,
        "error_type": "ValueError",
        "error_code": "exception",
    }
    assert details["job_id"] == details["correlation_id"]


def test_only_final_failures_are_reported_where_that_is_asked_for() -> None:
    app, reports = App(), Reports()
    report_errors(app, reports, only_final=True)
    define(app)
    run(app, "raise", "retry", "once")
    assert reports.short == [("ValueError", "failed", 2), ("Retry", "failed", 2)]


def test_bad_arguments_are_reported() -> None:
    app, reports = App(), Reports()
    report_errors(app, reports)

    @app.job
    async def work(number: int) -> None: ...

    with Sandbox(app) as box:
        (job,) = box.store.enqueue([NewJob(kind="work", args={"number": "many"})])
        assert box.run_one(job.id).state is State.FAILED
    ((error, details),) = reports
    assert (
        details["error_code"] == "bad_arguments" and "does not fit" in str(error) and "many" not in str(error)
    )


def test_a_reporter_that_raises_changes_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    app = App()

    def broken(error: BaseException, details: Mapping[str, Any]) -> None:
        raise RuntimeError("no line")

    report_errors(app, broken)
    define(app)
    with Sandbox(app) as box:
        job = box.app.enqueue("work", how="raise")
        box.drain(advance=True)
        found = box.store.jobs.get(job.id)
    assert found.state is State.FAILED and found.error is not None
    assert found.error["message"] == "ValueError: on purpose"
    told = [record for record in caplog.records if getattr(record, "event", "") == "reporter.failed"]
    assert [record.levelno for record in told] == [logging.ERROR] and "no line" in told[0].message


@pytest.mark.parametrize("bad", [None, "sentry"])
def test_what_is_no_reporter_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match="capture"):
        report_errors(App(), bad)

    async def capture(error: BaseException, details: Mapping[str, Any]) -> None: ...

    with pytest.raises(ConfigError, match="plain function"):
        report_errors(App(), capture)


def test_a_kept_token_is_not_reported() -> None:
    app, reports = App(config={"principal.keys": "k:" + "A" * 43 + "="}), Reports()
    report_errors(app, reports)

    @app.job(retry=fixed(1))
    def work(ctx: Context) -> None:
        token = ctx.token()
        raise ValueError(f"refused {token}")

    with Sandbox(app) as box:
        with box.app.as_principal(USER, token="tok-secret-1"):
            job = box.app.kind("work").options(keep_token=True).enqueue()
        assert box.run_one(job).state is State.FAILED
    ((error, _),) = reports
    assert "refused" in str(error) and "tok-secret-1" not in str(error)
    assert error.__context__ is None and error.__cause__ is None


class Kept(Transport):
    """A transport that keeps what would be sent."""

    events: ClassVar[list[Any]] = []

    def capture_envelope(self, envelope: Any) -> None:
        if (event := envelope.get_event()) is not None:
            self.events.append(event)


@pytest.fixture
def sentry() -> Iterator[list[Any]]:
    Kept.events.clear()
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=Kept,
        default_integrations=False,
        include_local_variables=False,
    )
    yield Kept.events
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)


def test_sentry_gets_the_error_with_the_job_and_without_its_arguments(sentry: list[Any]) -> None:
    app = App()

    def to_sentry(error: BaseException, details: Mapping[str, Any]) -> None:
        with sentry_sdk.new_scope() as scope:
            scope.set_tag("kind", details["kind"])
            scope.set_context("job", dict(details))
            sentry_sdk.capture_exception(error)

    report_errors(app, to_sentry, only_final=True)
    define(app)
    run(app, "raise")
    (event,) = sentry
    assert event["tags"] == {"kind": "work"} and event["contexts"]["job"]["outcome"] == "failed"
    (exception,) = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("ValueError", "on purpose")
    assert exception["stacktrace"]["frames"][-1]["function"] == "work"
    assert "'how'" not in repr(event)
