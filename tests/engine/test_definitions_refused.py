"""What cannot work is refused where it is written, and the error says where to look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass import App, Context
from windlass.errors import ConfigError
from windlass.model import JobFilter, NewJob, State

pytestmark = pytest.mark.one_database


def test_a_generator_function_is_no_handler() -> None:
    def plain() -> Iterator[int]:
        yield 1

    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    class Making:
        def __call__(self) -> Iterator[int]:
            yield 1

    handlers: list[Any] = [plain, asynchronous, Making()]
    for number, handler in enumerate(handlers):
        with pytest.raises(ConfigError, match="generator"):
            App().job(name=f"k{number}")(handler)


def test_what_is_no_function_is_no_handler() -> None:
    for what in (3, "name", None):
        app: Any = App()
        with pytest.raises(ConfigError, match=r"handler|function"):
            app.job(name="x")(what) if what is None else app.job(what)


def test_a_doubled_kind_says_where_the_first_one_is() -> None:
    app = App()

    @app.job
    def twice() -> None: ...

    line = twice.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    with pytest.raises(
        ConfigError, match=rf"kind = 'twice' .*{__file__}:{line}.*another name: @app\.job\(name="
    ):
        app.job(name="twice")(lambda: None)
    with pytest.raises(ConfigError, match=rf"{__file__}:{line}"):
        app.pipeline("twice").phase("one")(lambda: None)


def test_a_decorator_without_its_parentheses_is_refused() -> None:
    """`@app.cron` took the function for the expression, and defined nothing."""
    app: Any = App()

    def tidy() -> None: ...

    with pytest.raises(ConfigError, match=rf"tidy .*{__file__}.*write @app\.cron\(\.\.\.\)"):
        app.cron(tidy)
    with pytest.raises(ConfigError, match=rf"tidy .*{__file__}.*give it a name"):
        app.pipeline("site").phase(tidy)


def test_a_phase_takes_the_arguments_of_the_first_one() -> None:
    """Else each job would fail in that phase, after the phases before it were run."""
    app = App()
    sites = app.pipeline("site")

    @sites.phase("fetch")
    def fetch(url: str, depth: int = 1) -> None: ...

    @sites.phase("judge")
    def judge(ctx: Context, url: str, depth: int = 1, since: int = 0) -> None: ...

    with pytest.raises(
        ConfigError, match=r"phase = 'site:parse' .*does not take url, depth, and site:fetch does"
    ):
        sites.phase("parse")(lambda: None)

    def store(url: str, depth: int, table: str) -> None: ...

    with pytest.raises(
        ConfigError, match=r"phase = 'site:store' .*needs table, which site:fetch does not take"
    ):
        sites.phase("store")(store)


def test_an_option_that_is_bad_in_one_of_many_is_found(shop: Shop) -> None:
    @shop.app.job
    def work(n: int) -> None: ...

    with pytest.raises(ConfigError, match=r"jobs\[2\]: priority"):
        work.enqueue_many([work.request(1), work.request(2), work.options(priority=12).request(3)])
    with pytest.raises(ConfigError, match=r"jobs\[1\]: max_attempts"):
        shop.store.enqueue([NewJob(kind="a"), NewJob(kind="a", max_attempts=0)])


def test_a_state_that_there_is_not_is_refused(shop: Shop) -> None:
    shop.store.enqueue([NewJob(kind="a")])
    state: Any = "faild"
    with pytest.raises(ConfigError, match="failed"):
        shop.store.jobs.list(JobFilter(state=state))
    plain: Any = "queued"
    assert len(shop.store.jobs.list(JobFilter(state=plain)).jobs) == 1
    assert len(shop.store.jobs.list(JobFilter(state=State.QUEUED)).jobs) == 1


def test_rules_see_defaults(shop: Shop) -> None:
    """A fan-in met on null, and its child failed, where the parents' callers had left an argument to its default."""
    seen: list[tuple[str, str]] = []

    @shop.app.job
    def hours(county: str, period: str = "2026-01", note: str = "not read by a rule") -> None: ...

    @shop.app.job
    def costs(period: str = "2026-01") -> None: ...

    @shop.app.job
    def report(period: str) -> None:
        seen.append(("report", period))

    @shop.app.job
    def echo(period: str) -> None:
        seen.append(("echo", period))

    shop.app.when_all([hours, costs], create=report, key=["args.period"])
    shop.app.when(costs, create=echo, args={"period": "args.period"})
    parents = [hours.enqueue("Harju"), costs.enqueue()]
    assert shop.job(parents[0]).args == {"county": "Harju", "period": "2026-01"}
    assert shop.job(parents[1]).args == {"period": "2026-01"}
    shop.app.sync()
    shop.serve()
    shop.until(lambda: len(seen) == 2)
    assert sorted(seen) == [("echo", "2026-01"), ("report", "2026-01")]


def test_a_rule_that_passes_all_on_passes_defaults_on(shop: Shop) -> None:
    seen: list[int] = []
    shop.app.when("first", create="second")

    @shop.app.job
    def second(n: int) -> None:
        seen.append(n)

    @shop.app.job
    def first(n: int = 7) -> None: ...

    first.enqueue()
    shop.app.sync()
    shop.serve()
    shop.until(lambda: seen == [7])
