"""An attempt: one job in, one outcome out, whatever the handler does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.leases import lease
from windlass.engine.attempt import AttemptRunner, Call
from windlass.engine.running_attempt import Processor, RunningAttempt, Stop
from windlass.errors import LeaseLost, StoreBusyError
from windlass.handlers.bound_registry import BoundRegistry
from windlass.handlers.context import Context
from windlass.handlers.phase_defaults import FixedDefaults
from windlass.handlers.registry import Registry
from windlass.model import Advanced, Cancelled, Completed, Failed, Json, Lease, Retried
from windlass.model.retry import RetryPolicy, custom, fixed
from windlass.model.signals import Cancel, Fail, Retry


def greet(name: str, times: int = 1) -> list[str]:
    return [f"hello {name}"] * times


def nothing() -> None: ...


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


def attempt(registry: Registry, lease: Lease | None = None) -> RunningAttempt:
    """A job of this registry that runs."""
    lease = lease or job()
    return RunningAttempt(lease, registry.phase(lease.phase), Processor(lease.phase, 1), 0.0, 0.0, False)


def runner() -> AttemptRunner:
    no_store: Any = None
    return AttemptRunner(lambda running: no_store)


def test_a_job_becomes_a_call_with_validated_arguments(registry: Registry) -> None:
    call = runner().prepare(attempt(registry, job(args='{"name":"Ada","times":2}')))
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
    outcome = runner().prepare(attempt(registry, broken))
    assert isinstance(outcome, Failed) and outcome.error.code == code and outcome.lease is broken


def test_a_phase_that_is_defined_later_is_the_next_one() -> None:
    """Also of an attempt that began while there was no other, and in a registry with other defaults."""
    made = Registry()
    made.define("grown", nothing, label="one")
    bound = BoundRegistry(made, FixedDefaults())
    for registry in (made, bound):
        assert isinstance(runner().returned(attempt(registry, job("grown:one")), None), Completed)
    begun = [attempt(registry, job("grown:one")) for registry in (made, bound)]
    made.define("grown", nothing, label="two")
    for running in begun:
        outcome = runner().returned(running, None)
        assert isinstance(outcome, Advanced) and (outcome.phase, outcome.output) == ("grown:two", "null")
    for registry in (made, bound):
        outcome = runner().returned(attempt(registry, job("grown:two")), None)
        assert isinstance(outcome, Completed) and [name for name, _ in outcome.route] == [
            "grown:one",
            "grown:two",
        ]


def test_a_context_that_cannot_be_made_is_a_failed_attempt() -> None:
    def asks(ctx: Context) -> None: ...

    def broken(running: RunningAttempt) -> Any:
        raise ConnectionError("no way")

    registry = Registry()
    registry.define("asks", asks, injected=lambda annotation: annotation is Context)
    outcome = AttemptRunner(broken).prepare(attempt(registry, job("asks", "{}")))
    assert isinstance(outcome, Retried) and "no way" in outcome.error.message


def test_a_result_completes_the_last_phase_and_advances_the_others(registry: Registry) -> None:
    done = runner().returned(attempt(registry), ["hello"])
    assert isinstance(done, Completed) and done.result == '["hello"]'
    moved = runner().returned(attempt(registry, job("pipe:one")), ["x"])
    assert isinstance(moved, Advanced)
    assert (moved.phase, moved.output, moved.max_attempts) == ("pipe:two", '["x"]', 9)
    assert isinstance(runner().returned(attempt(registry, job("pipe:two")), []), Completed)


@pytest.mark.parametrize("value", [object(), [object()], "not a list", [float("nan")], ["\x00"]])
def test_a_result_that_cannot_be_stored_is_a_failed_job(registry: Registry, value: object) -> None:
    """I-17."""
    outcome = runner().returned(attempt(registry), value)
    assert isinstance(outcome, Failed) and outcome.error.code == "bad_result"


def test_what_a_handler_raises_to_steer(registry: Registry) -> None:
    """Do not retry, retry after, cancel."""
    fail = runner().raised(attempt(registry), Fail("bad_county", "no such county"))
    assert isinstance(fail, Failed) and (fail.error.code, fail.error.message) == (
        "bad_county",
        "no such county",
    )
    later = runner().raised(attempt(registry), Retry(after=90))
    assert isinstance(later, Retried) and later.delay == timedelta(seconds=90) and later.counted
    free = runner().raised(attempt(registry), Retry(counted=False))
    assert isinstance(free, Retried) and not free.counted and free.delay == timedelta(seconds=7)
    stop = runner().raised(attempt(registry), Cancel("enough"))
    assert isinstance(stop, Cancelled) and stop.reason == "enough"
    lost = runner().raised(attempt(registry), LeaseLost("job"))  # perhaps of another job: the database knows
    assert isinstance(lost, Retried) and lost.error.code == "lease_lost"


def test_any_other_exception_follows_the_policy(registry: Registry) -> None:
    try:
        raise ValueError("it broke") from KeyError("cause")
    except ValueError as error:
        outcome = runner().raised(attempt(registry), error)
    assert isinstance(outcome, Retried) and outcome.delay == timedelta(seconds=7)
    assert (outcome.error.type, outcome.error.code) == ("ValueError", "exception")
    assert "it broke" in outcome.error.message
    assert outcome.error.traceback is not None and "KeyError" in outcome.error.traceback


def test_an_exception_that_cannot_be_printed_is_described_all_the_same(registry: Registry) -> None:
    outcome = runner().raised(attempt(registry), UnprintableError())
    assert isinstance(outcome, Retried) and outcome.error.type == "UnprintableError" and outcome.error.message


def test_where_a_policy_breaks_the_default_one_stands_in() -> None:
    registry = Registry()
    registry.define("work", greet, retry=custom(3, lambda *_: 1 / 0))
    outcome = runner().raised(attempt(registry, job("work")), ValueError("mine"))
    assert isinstance(outcome, Retried) and timedelta(0) < outcome.delay < timedelta(seconds=2)
    assert "mine" in outcome.error.message
    assert outcome.error.details == {"retry_policy": "ZeroDivisionError: division by zero"}


def test_a_job_that_outran_its_limit_is_tried_again(registry: Registry) -> None:
    running = attempt(registry)
    running.stop = Stop.TIME_LIMIT
    outcome = runner().given_up(running)
    assert (
        isinstance(outcome, Retried)
        and outcome.error.code == "time_limit"
        and "300 s" in outcome.error.message
    )


NEVER = custom(3, lambda *_: None)


def ended(policy: RetryPolicy, error: BaseException, **changes: Any) -> Any:
    """The outcome of a job with this policy whose handler raised."""
    registry = Registry()
    registry.define("work", greet, retry=policy)
    return runner().raised(attempt(registry, replace(job("work"), **changes)), error)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (fixed(3, give_up_on=ValueError), "ValueError is in give_up_on"),
        (fixed(3, on=KeyError), "ValueError is not in on (KeyError)"),
        (NEVER, "its retry policy returned None"),
    ],
)
def test_a_policy_that_stops_fails_the_job_with_its_own_error(
    policy: RetryPolicy, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = ended(policy, ValueError("mine"))
    assert isinstance(outcome, Failed) and outcome.run is not None
    assert (outcome.error.type, outcome.error.message) == ("ValueError", "ValueError: mine")
    assert outcome.error.details == {"retry": f"not retried: {why}"}
    assert "policy.broken" not in [getattr(line, "event", "") for line in caplog.records]


def test_a_policy_cannot_end_what_a_handler_wants_repeated() -> None:
    for policy in (NEVER, fixed(3, wait=7, on=KeyError, give_up_on=Exception)):
        again = ended(policy, Retry())
        assert isinstance(again, Retried) and again.counted and again.delay > timedelta(0)
        busy = ended(policy, StoreBusyError("locked"))
        assert isinstance(busy, Retried) and not busy.counted and busy.delay > timedelta(0)
    assert isinstance(ended(fixed(3, on=KeyError), StoreBusyError("locked"), max_attempts=3), Retried)


def test_a_time_limit_is_not_chosen_by_exception() -> None:
    registry = Registry()
    registry.define("some", greet, retry=fixed(3, on=KeyError))
    registry.define("none", greet, retry=NEVER)
    made = []
    for phase in ("some", "none"):
        running = attempt(registry, job(phase))
        running.stop = Stop.TIME_LIMIT
        made.append(runner().given_up(running))
    assert isinstance(made[0], Retried) and isinstance(made[1], Failed)
    assert made[1].error.code == "time_limit" and "returned None" in made[1].error.details["retry"]
