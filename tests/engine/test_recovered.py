"""Jobs of dead instances are counted and told like any others: once, under their phase, with their ids."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.observe.lines import written
from windlass.engine.engine import Engine
from windlass.model import Lease, State
from windlass.model.retry import fixed
from windlass.store.jobs.holder import Holder

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

ID_NAMES = ("job_id", "correlation_id", "phase", "attempt")


def ended(engine: Engine) -> dict[str, int]:
    phases = engine.stats.report().phases
    return {name: n for name, n in phases["work"].outcomes.items() if n} if "work" in phases else {}


def nothing(holder: Holder, lease: Lease) -> None: ...


def put_result(holder: Holder, lease: Lease) -> None:
    holder.put_output(lease, 7)


@pytest.mark.parametrize(
    ("attempts", "before", "verdict", "code"),
    [
        (1, nothing, "failed", "instance_died"),
        (9, nothing, "failed", "death_cap"),
        (1, put_result, "completed", None),
    ],
    ids=["one attempt", "death cap", "output found"],
)
def test_an_end_by_recovery_is_an_end_of_its_phase(
    shop: Shop,
    attempts: int,
    before: Callable[[Holder, Lease], None],
    verdict: str,
    code: str | None,
) -> None:
    """It was in neither the metrics of the phase nor the roll-ups nor a job.failed line, as if it had not happened."""

    @shop.app.job(retry=fixed(attempts))
    def work() -> int:
        raise AssertionError("it is not run here")

    job = work.options(correlation_id="req-1").enqueue()
    start = shop.store.now() - timedelta(minutes=1)
    dying = shop.store.join(lease=timedelta(seconds=0.3))
    (lease,) = dying.claim("work", 1)
    before(dying, lease)
    with written() as lines:
        engine = shop.serve(death_cap=1 if code == "death_cap" else 10, recovery=0.1, rollup=3600.0)
        shop.until(lambda: shop.job(job).state is State(verdict))
        shop.until(lambda: f"job.{verdict}" in [line["event"] for line in lines.objects])
        engine.stop()
    report = engine.stats.report()
    assert ended(engine) == {verdict: 1}
    assert report.phases["work"].run.count == 0, "nobody knows how long it ran"
    (row,) = shop.store.rollups.read(since=start)
    assert (row.phase, row.failed, row.completed) == ("work", int(verdict == "failed"), int(not code))
    told = {line["event"]: line for line in lines.objects if line.get("job_id") == job.id}
    for event in ("job.recovered", f"job.{verdict}"):
        assert [told[event].get(name) for name in ID_NAMES] == [job.id, "req-1", "work", 1]
        assert told[event].get("error", {}).get("code") == code
    assert told["job.recovered"]["fields"] == {"verdict": verdict}
    assert (shop.job(job).error or {}).get("code") == code


def test_a_job_that_was_to_stop_when_its_instance_died_names_the_reason(shop: Shop) -> None:
    @shop.app.job
    def work() -> None:
        raise AssertionError("it is not run here")

    job = work.options(correlation_id="req-1").enqueue()
    shop.store.join(lease=timedelta(seconds=0.3)).claim("work", 1)
    shop.store.jobs.cancel(job.id, "the order was withdrawn")
    with written() as lines:
        engine = shop.serve(recovery=0.1)
        shop.until(lambda: "job.cancelled" in [line["event"] for line in lines.objects])
    assert ended(engine) == {"cancelled": 1}
    told = {line["event"]: line for line in lines.objects if line.get("job_id") == job.id}
    assert told["job.cancelled"]["message"] == "the order was withdrawn"
    assert told["job.recovered"]["message"].endswith("a cancel was requested: the order was withdrawn")
    for event in ("job.recovered", "job.cancelled"):
        assert told[event]["fields"]["reason"] == "the order was withdrawn"
    assert (shop.job(job).error or {})["message"] == "the order was withdrawn"


@pytest.mark.parametrize(("starting", "code"), [(0, None), (1, "instance_died")], ids=["claimed", "started"])
def test_a_job_that_goes_back_to_its_queue_names_its_error(
    shop: Shop, starting: int, code: str | None
) -> None:
    @shop.app.job
    def work() -> None: ...

    job = work.options(correlation_id="req-1").enqueue()
    shop.store.join(lease=timedelta(seconds=0.3)).claim("work", 1, starting=starting)
    with written() as lines:
        engine = shop.serve(recovery=0.1)
        shop.until(lambda: shop.job(job).state is State.COMPLETED)
        shop.until(lambda: ended(engine) == {"completed": 1, "released": 1})
    (line,) = [line for line in lines.objects if line["event"] == "job.recovered"]
    assert [line.get(name) for name in ID_NAMES] == [job.id, "req-1", "work", 1]
    assert line["fields"] == {"verdict": "released"} and line.get("error", {}).get("code") == code


def test_a_job_that_is_held_for_its_probe_is_counted_when_it_ends(shop: Shop) -> None:
    """Once: not when it is taken over."""

    def probe() -> Any:
        return 7

    @shop.app.job(probe=probe)
    def work() -> int:
        raise AssertionError("it is not run here")

    job = work.enqueue()
    shop.store.join(lease=timedelta(seconds=0.3)).claim("work", 1)
    engine = shop.serve(recovery=0.1)
    shop.until(lambda: shop.job(job).state is State.COMPLETED)
    shop.drained(engine)
    assert ended(engine) == {"completed": 1}
