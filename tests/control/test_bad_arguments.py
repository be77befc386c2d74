"""Every argument of every call of the control service, given values that it cannot mean: each is used or refused, by an error of Windlass."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from tests.control.calls import public_calls
from windlass import App, NewJob
from windlass.errors import ConfigError, WindlassError
from windlass.features import Store

BAD: Mapping[str, Any] = {
    "none": None,
    "empty": "",
    "NUL": "x\0y",
    "surrogate": "\ud800",
    "long": "x" * 5000,
    "number": 7,
    "negative": -1,
    "bool": True,
    "huge": 10**30,
    "nan": math.nan,
    "infinity": math.inf,
    "list": [],
    "mapping": {"a": object()},
    "object": object(),
    "naive": datetime(2020, 1, 1),  # noqa: DTZ001  what is to be refused
    "first": datetime.min.replace(tzinfo=UTC),
    "last": datetime.max.replace(tzinfo=UTC),
    "ages": timedelta.max,
    "bytes": b"x",
}
NOT_CALLED = {"events", "doctor.examine"}
"""Without an argument that means something, or tested elsewhere (test_events.py)."""
OTHERS = ("metrics.", "pipelines.", "submits.", "tokens.")
"""Parts whose arguments are tested in tests/api and tests/tokens."""
ENDLESS = {("instances.wait", "timeout"), ("operations.wait", "timeout"), ("jobs.events", "timeout")}


@pytest.fixture(scope="module")
def app(open_shared: Callable[[], Store]) -> Iterator[App]:
    with App(store=open_shared()) as made:

        @made.job
        def welcome(text: str = "") -> None: ...

        yield made


def given(app: App) -> Mapping[str, Any]:
    """A value for each argument that has no default."""
    (job,) = app.store.enqueue([NewJob(kind="welcome")])
    texts = dict.fromkeys(("phase", "name", "key", "version", "reason"), "welcome")
    ids = dict.fromkeys(("job_id", "instance", "request_id", "operation_id"), job.id)
    return {
        **texts, **ids, "act": "cancel", "text": "release 1", "only": "kind:welcome", "since": datetime.now(UTC), "count": 1, "timeout": 0.0, "dry_run": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "call", [call for call in sorted(public_calls() - NOT_CALLED) if not call.startswith(OTHERS)]
)
def test_any_argument_is_used_or_refused(app: App, call: str) -> None:
    noun, _, name = call.partition(".")
    method, good = getattr(getattr(app, noun), name), given(app)
    parameters = inspect.signature(method).parameters
    needed = {
        key: good[key]
        for key, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty or key in ("timeout", "dry_run")
    }
    for key in parameters:
        for what, value in BAD.items():
            if (call, key) in ENDLESS:
                continue
            arguments = {**needed, key: value}
            if "target" in parameters:
                arguments.setdefault("target", "job")
            try:
                result = method(**arguments)
                if inspect.isgenerator(result):
                    list(islice(result, 1))
            except WindlassError as error:
                assert str(error), f"{call}({key}={what})"
            except Exception as error:
                raise AssertionError(f"{call}({key}={what}) raises {error!r}") from error


def test_an_ended_job_is_not_retried_for_a_reason_that_is_no_text(app: App) -> None:
    (job,) = app.store.enqueue([NewJob(kind="welcome")])
    app.jobs.cancel(job.id, "ordered twice")
    for reason in (7, "x\0y", "\ud800"):
        with pytest.raises(ConfigError, match="reason"):
            app.jobs.retry(job.id, reason=reason)  # type: ignore[arg-type]
    assert app.jobs.get(job.id).state == "cancelled"
