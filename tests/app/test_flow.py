"""Flow control as applications say it: options of kinds and of single jobs, and mistakes that are named at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.waiting import eventually
from windlass import App, Debounce, Rate, Throttle
from windlass.errors import ConfigError, WindlassError
from windlass.model import Flow, JobFilter, State


@pytest.fixture
def app(sqlite_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{sqlite_path}") as made:
        yield made


def limits(app: App) -> list[tuple[str, str, int | None]]:
    """The gates that jobs stand at, once they are let in."""
    app.store.limits.let_in()
    return [(gate.phase, gate.key, gate.limit) for gate in app.store.limits.gates()]


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_limit_is_one_key_for_the_phase_a_fixed_one_or_a_path(app: App) -> None:
    @app.job(limit=3)
    def whole(n: int) -> None: ...

    @app.job(limit=2, limit_key="printer")
    def fixed(n: int) -> None: ...

    @app.job(limit=1, limit_key="args.order.customer")
    def nested(order: dict[str, Any], n: int = 0) -> None: ...

    whole.enqueue(1)
    fixed.enqueue(1)
    nested.enqueue(order={"customer": "ada"})
    nested.enqueue({"customer": 7})
    nested.options(limit_key="given").enqueue({})
    assert limits(app) == [
        ("fixed", "printer", 2),
        ("nested", "7", 1),
        ("nested", "ada", 1),
        ("nested", "given", 1),
        ("whole", "", 3),
    ]


def test_every_phase_of_a_pipeline_has_its_own(app: App) -> None:
    sites = app.pipeline("site")

    @sites.phase("fetch", rate=windlass.per_second(5, burst=10))
    def fetch(url: str, customer: str) -> str:
        return url

    @sites.phase("judge", limit=2, limit_key="args.customer", age=60)
    def judge(url: str, customer: str) -> None: ...

    job = sites.enqueue(url="x", customer="ada")
    assert app.store.jobs.get(job.id).state is State.WAITING
    engine = app.worker()
    engine.start()
    try:
        assert app.store.limits.flows() == [
            Flow(phase="site:fetch", rate=Rate(5, 10)),
            Flow(phase="site:judge", limit=2, limit_key="args.customer", age=timedelta(seconds=60)),
        ]
        eventually(lambda: app.store.jobs.get(job.id).state.is_final)
    finally:
        engine.stop()
    assert app.store.jobs.get(job.id).state is State.COMPLETED
    assert limits(app) == [("site:judge", "ada", 2)]


@pytest.mark.parametrize("arguments", [{}, {"customer": None}, {"customer": ["a"]}, {"customer": True}])
def test_arguments_without_a_key_are_refused_and_nothing_is_stored(
    app: App, arguments: dict[str, Any]
) -> None:
    @app.job(limit=1, limit_key="args.order.customer")
    def kind(order: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigError, match=r"limit_key = 'args\.order\.customer'"):
        kind.enqueue_many([{"order": {"customer": "fine"}}, {"order": arguments}])
    assert app.store.jobs.list().jobs == []


def test_a_key_for_a_kind_without_a_limit_is_refused(app: App) -> None:
    @app.job
    def plain(n: int) -> None: ...

    with pytest.raises(ConfigError, match="limit_key"):
        plain.options(limit_key="a").enqueue(1)
    assert app.store.jobs.list().jobs == []


# --- definitions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"limit": 0}, "limit = 0"),
        ({"limit": -1}, "limit = -1"),
        ({"limit": 2.5}, "limit = 2.5"),
        ({"limit": True}, "limit = True"),
        ({"limit": "3"}, "limit = '3'"),
        ({"limit_key": "args.customer"}, "a limit beside it"),
        ({"limit": 1, "limit_key": ""}, "limit_key = ''"),
        ({"limit": 1, "limit_key": "args.nobody"}, "one of the handler's parameters"),
        ({"limit": 1, "limit_key": "args."}, "one of the handler's parameters"),
        ({"limit": 1, "limit_key": 7}, "limit_key = 7"),
        ({"rate": 5}, "rate = 5"),
        ({"rate": Rate(0, 1)}, "rate = 0"),
        ({"rate": Rate(1, 0)}, "burst = 0"),
        ({"age": 0}, "age"),
        ({"age": -5}, "age"),
        ({"age": "long"}, "age = 'long'"),
        ({"limti": 3}, "did you mean limit"),
        ({"colour": "red"}, "option = 'colour'"),
    ],
    ids=lambda value: str(value),
)
def test_a_definition_that_cannot_work_is_refused_and_nothing_is_defined(
    app: App, options: dict[str, Any], named: str
) -> None:
    def handler(customer: str) -> None: ...

    with pytest.raises(ConfigError) as caught:
        app.job(**options)(handler)
    assert named in str(caught.value)
    with pytest.raises(ConfigError):
        app.pipeline("pipe").phase("first", **options)(handler)
    assert len(app.parts.registry) == 0


@pytest.mark.parametrize("count", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_rate_that_is_none_is_refused(count: Any) -> None:
    for make in (windlass.per_second, windlass.per_minute, windlass.per_hour):
        with pytest.raises(ConfigError, match="rate"):
            make(count)


def test_rates_are_per_second_and_spread_evenly_unless_a_burst_is_given() -> None:
    assert windlass.per_second(5) == Rate(5.0, 2)
    assert windlass.per_second(100) == Rate(100.0, 11)
    assert windlass.per_minute(30) == Rate(0.5, 1)
    assert windlass.per_hour(36, burst=4) == Rate(0.01, 4)
    with pytest.raises(ConfigError, match="burst = 0"):
        windlass.per_second(5, burst=0)


# --- debounce and throttle -------------------------------------------------------------------------------------------


def test_debounce_and_throttle_are_options_of_enqueue(app: App) -> None:
    @app.job
    def index(page: int) -> None: ...

    first = index.options(debounce=Debounce("site", wait=30)).enqueue(1)
    second = index.options(debounce="site", delay=60).enqueue(2)
    assert (first.created, second.created, second.replaced) == (True, False, True)
    (job,) = app.store.jobs.list(JobFilter(kind="index")).jobs
    assert (job.args, job.state) == ({"page": 2}, State.SCHEDULED)
    only = index.options(throttle=Throttle("site", 60))
    answers = [only.enqueue(3), only.enqueue(4)]
    assert [answer.created for answer in answers] == [True, False]
    for wrong in ({"debounce": "site"}, {"debounce": 5}, {"throttle": 60}, {"throttle": "site"}):
        with pytest.raises(WindlassError):
            index.enqueue(5, **wrong)
    assert len(app.store.jobs.list(JobFilter(kind="index")).jobs) == 2
