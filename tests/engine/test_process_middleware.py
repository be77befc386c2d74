"""Middleware around attempts in child processes: the same order, context and outcomes as in the worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engine import middleware_app as jobs
from tests.engine.shop import Shop
from windlass import App, CurrentAttempt
from windlass.model import NewJob, State

pytestmark = [pytest.mark.timing, pytest.mark.one_database]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def run(shop: Shop, file: Path, app: Any, kinds: list[str]) -> list[Any]:
    """Run a job of each kind, one after the other in one child process."""
    shop.serve_app(App.of(app.parts.bound(config=shop.app.config, store=shop.store)), max_concurrent_calls=1)
    found = []
    for kind in kinds:
        headers = {"tenant": f"of {kind}", "file": f"{file}-{kind}"}
        args = {"number": "many"} if kind == "typed" else {}
        attempts = 2 if kind == "bad" else 1
        (job,) = shop.store.enqueue([NewJob(kind=kind, args=args, headers=headers, max_attempts=attempts)])
        if kind.startswith("stopped"):
            shop.until(partial(has_begun, file, kind))
            shop.store.jobs.cancel(job.id)
        shop.until(partial(has_ended, shop, job.id))
        found.append(shop.job(job))
    return found


def has_begun(file: Path, kind: str) -> bool:
    return "begun" in lines(file, kind)


def has_ended(shop: Shop, job_id: str) -> bool:
    return shop.job(job_id).state.is_final


def lines(file: Path, kind: str) -> list[str]:
    path = Path(f"{file}-{kind}")
    return path.read_text().splitlines() if path.exists() else []


def test_every_end_in_a_child_process_is_seen(shop: Shop, file: Path) -> None:
    kinds = ["work", "work_async", "bad", "spoilt", "committed", "stopped", "stopped_async", "typed"]
    found = dict(zip(kinds, run(shop, file, jobs.app, kinds), strict=True))
    for kind in ("work", "work_async"):
        assert (found[kind].state, found[kind].result) == (State.COMPLETED, f"of {kind}")
        assert lines(file, kind) == [
            f"outer {kind} 1", "inner", f"handler of {kind}", "inner completed", "outer completed None NoneType",
        ]  # fmt: skip
    assert lines(file, "bad") == [
        "outer bad 1", "inner", "outer retried exception ValueError",
        "outer bad 2", "inner", "outer failed exception ValueError",
    ]  # fmt: skip
    assert lines(file, "spoilt") == [
        "outer spoilt 1",
        "inner",
        "inner completed",
        "outer failed exception RuntimeError",
    ]
    assert found["spoilt"].state is State.FAILED
    assert lines(file, "committed") == ["outer committed 1", "inner", "outer completed None ValueError"]
    assert (found["committed"].state, found["committed"].result) == (State.COMPLETED, 1)
    assert lines(file, "stopped")[-1] == "outer cancelled None Stopped"
    assert lines(file, "stopped_async")[-1] == "outer cancelled None CancelledError"
    assert [found[kind].state for kind in ("stopped", "stopped_async")] == [State.CANCELLED] * 2
    assert lines(file, "typed")[-1] == "outer failed bad_arguments HandlerError"
    assert found["typed"].state is State.FAILED


def test_async_middleware_works_and_what_the_process_lacks_is_named(
    shop: Shop, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Middleware that is registered in a function is not there: the child process does not call it."""

    @contextmanager
    def only_here(attempt: CurrentAttempt) -> Iterator[None]:
        yield

    jobs.async_app.middleware(only_here)
    try:
        (job,) = run(shop, file, jobs.async_app, ["awaited"])
    finally:
        jobs.async_app.parts.registry.middleware.pop()
    assert (job.state, job.result) == (State.COMPLETED, "async")
    assert lines(file, "awaited") == ["waiting completed"]
    told = (
        "has no middleware test_async_middleware_works_and_what_the_process_lacks_is_named.<locals>.only_here"
    )
    heard: list[str] = []

    def is_told() -> bool:  # one line, from the child process
        heard.append(capfd.readouterr().err)
        return told in "".join(heard)

    shop.until(is_told)
