"""The runner: one job in, one outcome out, whatever the handler does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.leases import lease
from windlass.engine.runner import Call, Runner
from windlass.errors import LeaseLost
from windlass.handlers.context import Context
from windlass.handlers.registry import Phase, Registry
from windlass.model import Advanced, Cancelled, Completed, Failed, Json, Lease, Retried
from windlass.model.retry import custom, fixed
from windlass.model.signals import Cancel, Fail, Retry


def greet(name: str, times: int = 1) -> list[str]:
    return [f"hello {name}"] * times


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.define("greet", greet, retry=fixed(3, wait=7))
    made.define("pipe", greet, label="one")
    made.define("pipe", greet, label="two", retry=fixed(9))
    return made


def job(phase: str = "greet", args: str = '{"name":"Ada"}') -> Lease:
    return replace(lease(phase), kind=phase.partition(":")[0], args_json=Json(args))


def phase_of(registry: Registry, name: str) -> Phase:
    phase = registry.phase(name)
    assert phase is not None
    return phase


def test_a_job_becomes_a_call_with_validated_arguments(registry: Registry) -> None:
    call = Runner(registry).prepare(job(args='{"name":"Ada","times":2}'))
    assert isinstance(call, Call) and call() == ["hello Ada", "hello Ada"]


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (job("gone"), "unknown_kind"),
        (replace(job(), kind="other"), "unknown_kind"),
        (job(args='{"name":"Ada","times":"many"}'), "bad_arguments"),
        (job(args="{}"), "bad_arguments"),
        (job(args='{"name":"Ada","extra":1}'), "bad_arguments"),
        (job(args="[1"), "bad_arguments"),
    ],
)
def test_a_row_that_cannot_be_run_ends_with_a_code(registry: Registry, broken: Lease, code: str) -> None:
    """I-16."""
    outcome = Runner(registry).prepare(broken)
    assert isinstance(outcome, Failed) and outcome.error.code == code and outcome.lease is broken


def test_a_context_that_cannot_be_made_is_a_failed_attempt() -> None:
    def asks(ctx: Context) -> None: ...

    def broken(phase: Phase) -> Context:
        raise ConnectionError("no way")

    registry = Registry()
    registry.define("asks", asks, injected=lambda annotation: annotation is Context)
    outcome = Runner(registry).prepare(job("asks", "{}"), broken)
    assert isinstance(outcome, Retried) and "no way" in outcome.error.message


def test_a_result_completes_the_last_phase_and_advances_the_others(registry: Registry) -> None:
    runner = Runner(registry)
    done = runner.returned(job(), phase_of(registry, "greet"), ["hello"])
    assert isinstance(done, Completed) and done.result == '["hello"]'
    moved = runner.returned(job("pipe:one"), phase_of(registry, "pipe:one"), ["x"])
    assert isinstance(moved, Advanced)
    assert (moved.phase, moved.output, moved.max_attempts) == ("pipe:two", '["x"]', 9)
    assert isinstance(runner.returned(job("pipe:two"), phase_of(registry, "pipe:two"), []), Completed)


@pytest.mark.parametrize("value", [object(), [object()], "not a list", [float("nan")], ["\x00"]])
def test_a_result_that_cannot_be_stored_is_a_failed_job(registry: Registry, value: object) -> None:
    """I-17."""
    outcome = Runner(registry).returned(job(), phase_of(registry, "greet"), value)
    assert isinstance(outcome, Failed) and outcome.error.code == "bad_result"


def test_what_a_handler_raises_to_steer(registry: Registry) -> None:
    """Do not retry, retry after, cancel."""
    runner, phase = Runner(registry), phase_of(registry, "greet")
    fail = runner.raised(job(), phase, Fail("bad_county", "no such county"))
    assert isinstance(fail, Failed) and (fail.error.code, fail.error.message) == (
        "bad_county",
        "no such county",
    )
    later = runner.raised(job(), phase, Retry(after=90))
    assert isinstance(later, Retried) and later.delay == timedelta(seconds=90) and later.counted
    free = runner.raised(job(), phase, Retry(counted=False))
    assert isinstance(free, Retried) and not free.counted and free.delay == timedelta(seconds=7)
    stop = runner.raised(job(), phase, Cancel("enough"))
    assert isinstance(stop, Cancelled) and stop.reason == "enough"
    lost = runner.raised(job(), phase, LeaseLost("job"))  # perhaps of another job: the database knows
    assert isinstance(lost, Retried) and lost.error.code == "lease_lost"


def test_any_other_exception_follows_the_policy(registry: Registry) -> None:
    try:
        raise ValueError("it broke") from KeyError("cause")
    except ValueError as error:
        outcome = Runner(registry).raised(job(), phase_of(registry, "greet"), error)
    assert isinstance(outcome, Retried) and outcome.delay == timedelta(seconds=7)
    assert (outcome.error.type, outcome.error.code) == ("ValueError", "exception")
    assert "it broke" in outcome.error.message
    assert outcome.error.traceback is not None and "KeyError" in outcome.error.traceback


def test_an_exception_that_cannot_be_printed_is_described_all_the_same(registry: Registry) -> None:
    outcome = Runner(registry).raised(job(), phase_of(registry, "greet"), UnprintableError())
    assert isinstance(outcome, Retried) and outcome.error.type == "UnprintableError" and outcome.error.message


def test_where_a_policy_breaks_the_default_one_stands_in() -> None:
    registry = Registry()
    registry.define("work", greet, retry=custom(3, lambda *_: 1 / 0))
    outcome = Runner(registry).raised(job("work"), phase_of(registry, "work"), ValueError("mine"))
    assert isinstance(outcome, Retried) and timedelta(0) < outcome.delay < timedelta(seconds=2)
    assert "mine" in outcome.error.message
    assert outcome.error.details == {"retry_policy": "ZeroDivisionError: division by zero"}


def test_a_job_that_outran_its_limit_is_tried_again(registry: Registry) -> None:
    outcome = Runner(registry).timed_out(job(), phase_of(registry, "greet"))
    assert (
        isinstance(outcome, Retried)
        and outcome.error.code == "time_limit"
        and "300 s" in outcome.error.message
    )
