"""What people are shown of arguments, results and errors, and what the application itself gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.conftest import ANNA, BOSS
from windlass import App, NewJob, NotAllowedError
from windlass.control.actor import Actor
from windlass.features import Store
from windlass.model import JobError

HIDDEN = "***"


def hide(value: Any) -> Any:
    """Hides values by the name ``password``, and one word in texts."""
    match value:
        case dict():
            return {name: HIDDEN if name == "password" else hide(item) for name, item in value.items()}
        case list():
            return [hide(item) for item in value]
        case str():
            return value.replace("hunter2", HIDDEN)
    return value


@pytest.fixture
def secret(app: App, store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """A failed job of Anna's with secrets in its arguments, its error and an attempt before."""
    monkeypatch.setattr(app.parts, "redacted", hide)
    args = {"user": "anna", "login": {"password": "hunter2"}}
    (made,) = store.enqueue([NewJob(kind="welcome", args=args, principal=ANNA)])
    holder = store.join()
    lease = holder.claim_one(made.id)
    assert lease is not None
    error = JobError(
        type="ValueError",
        code="bad",
        message="hunter2 is wrong",
        traceback="line 1: hunter2",
        details={"password": "x"},
    )
    holder.fail(lease, error)
    return made.id


@pytest.mark.parametrize("who", [ANNA, BOSS])
def test_people_get_jobs_with_secrets_hidden(app: App, secret: str, who: Any) -> None:
    jobs = app.acting_as(who).jobs
    (listed,) = jobs.list("state:failed").jobs
    (iterated,) = jobs.iterate(f"id:{secret}")
    for job in (jobs.get(secret), listed, iterated):
        assert job.args == {"user": "anna", "login": {"password": HIDDEN}}
        assert "hunter2" not in repr(job) and job.error is not None
        assert job.error["message"] == f"{HIDDEN} is wrong" and job.error["details"] == {"password": HIDDEN}
        assert job.traceback == f"line 1: {HIDDEN}"
    (span,) = jobs.timeline(secret)
    assert span.error is not None and span.error["message"] == f"{HIDDEN} is wrong"


def test_the_application_gets_what_is_stored(app: App, secret: str) -> None:
    (listed,) = app.jobs.list("args.login.password:hunter2").jobs
    for job in (app.jobs.get(secret), listed):
        assert job.args["login"] == {"password": "hunter2"}
    assert "hunter2" in repr(app.jobs.timeline(secret))


def test_people_cannot_search_by_what_they_are_not_shown(app: App, secret: str) -> None:
    jobs = app.acting_as(BOSS).jobs
    for text in ("args.login.password:hunter2", "-args.login.password:x", "args.login.password:>1"):
        for call in (jobs.list, jobs.count, lambda only: list(jobs.iterate(only))):
            with pytest.raises(NotAllowedError, match=r"args\.login\.password.*hidden"):
                call(text)
    assert [job.id for job in jobs.list("args.user:anna").jobs] == [secret]


FILTER = "args.login.password:hunter2 -args.user:hunter2 args.user:anna"
SHOWN = 'args.login.password:"***" -args.user:"***" args.user:anna'


@pytest.mark.parametrize("who", [BOSS, Actor("os:root", hides_secrets=True)])
def test_people_get_filters_of_operations_with_secrets_hidden(app: App, secret: str, who: Any) -> None:
    begun = app.jobs.retry_many(FILTER, reason="mended")
    operations = app.acting_as(who).operations
    (listed,) = operations.list().operations
    found = (
        listed,
        operations.get(begun.id),
        operations.handle(begun.id).begun,
        operations.wait(begun.id, 0),
    )
    assert {one.filter for one in found} == {SHOWN}
    assert operations.start("retry", "args.user:anna", dry_run=True).begun.filter == "args.user:anna"
    assert app.operations.get(begun.id).filter == begun.begun.filter == FILTER
    assert "hunter2" not in repr(app.audit.list().records)
    assert SHOWN in repr(app.audit.list().records)


def test_an_operation_acts_by_the_filter_that_people_are_not_shown(app: App, secret: str) -> None:
    begun = app.jobs.retry_many("args.login.password:hunter2", reason="mended")
    ended = app.acting_as(BOSS).operations.wait(begun.id)
    assert (ended.matched, ended.done, str(ended.state)) == (1, 1, "done")
    assert app.jobs.get(secret).state == "queued" and "hunter2" not in ended.filter
