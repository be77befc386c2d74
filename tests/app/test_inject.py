"""Dependencies by type: scopes, clean-up, doubles, and mistakes that are named before anything is served."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.shop import Shop
from windlass import injected
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.principal import Principal
from windlass.model.retry import fixed


class Mailer:
    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.sent: list[int] = []


class Session:
    def __init__(self, mailer: Mailer) -> None:
        self.mailer = mailer
        self.is_open = True


@pytest.fixture
def shop(sqlite_path: Path) -> Iterator[Shop]:
    made = Shop(f"sqlite:///{sqlite_path}")
    yield made
    made.close()


def test_one_per_process_and_one_per_attempt(shop: Shop) -> None:
    made: list[Session] = []
    closed: list[Session] = []

    def open_session(mailer: Mailer) -> Iterator[Session]:
        session = Session(mailer)
        made.append(session)
        try:
            yield session
        finally:
            session.is_open = False
            closed.append(session)

    mailers: list[Mailer] = []

    @shop.app.job(retry=fixed(2, wait=0.02))
    def plain(ctx: Context, n: int, mailer: Mailer = injected(), session: Session = injected()) -> str:
        assert session.is_open and session.mailer is mailer
        mailers.append(mailer)
        if ctx.attempt == 1 and n == 0:
            raise ConnectionError("once more")
        return mailer.name

    @shop.app.job
    async def coloured(n: int, mailer: Mailer = injected(), session: Session = injected()) -> str:
        assert session.is_open
        mailers.append(mailer)
        return mailer.name

    shop.app.provide(Mailer, Mailer)
    shop.app.provide(Session, open_session, scope="job")
    jobs = [plain.enqueue(n=n) for n in range(3)] + [coloured.enqueue(n=n) for n in range(3)]
    assert shop.job(jobs[0]).args == {"n": 0}, "what is supplied is not stored"
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == ["real"] * 6
    assert len(set(map(id, mailers))) == 1 and len(made) == len(closed) == 7


def test_async_factories_serve_async_handlers(shop: Shop) -> None:
    ends: list[str] = []

    async def open_session() -> AsyncIterator[Session]:
        yield Session(Mailer("async"))
        ends.append("closed")

    async def make_mailer() -> Mailer:
        return Mailer("made")

    @shop.app.job
    async def work(session: Session = injected(), mailer: Mailer = injected()) -> list[str]:
        return [session.mailer.name, mailer.name]

    shop.app.provide(Session, open_session, scope="job")
    shop.app.provide(Mailer, make_mailer, scope="job")
    job = work.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == ["async", "made"] and ends == ["closed"]


def test_a_factory_that_raises_is_a_failed_attempt(shop: Shop) -> None:
    def broken() -> Mailer:
        raise ConnectionError("no SMTP server")

    @shop.app.job(retry=fixed(1))
    def work(mailer: Mailer = injected()) -> None: ...

    shop.app.provide(Mailer, broken)
    job = work.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).state is State.FAILED and "no SMTP server" in (shop.job(job).error or {})["message"]


def test_doubles_replace_and_direct_calls_take_what_they_are_given(shop: Shop) -> None:
    @shop.app.job
    def work(mailer: Mailer = injected()) -> str:
        return mailer.name

    shop.app.provide(Mailer, Mailer)
    shop.app.provide(Mailer, value=Mailer("double"))
    job = work.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == "double" and work(mailer=Mailer("mine")) == "mine"


def test_what_nobody_provides_is_named_before_anything_is_served(shop: Shop) -> None:
    @shop.app.job
    def one(mailer: Mailer) -> None: ...

    @shop.app.job
    def two(session: Session) -> None: ...

    async def make() -> AsyncIterator[Session]:
        yield Session(Mailer())

    shop.app.provide(Session, make, scope="job")
    with pytest.raises(ConfigError) as caught:
        shop.app.worker()
    text = str(caught.value)
    assert "one, mailer: Mailer is not provided; call app.provide(Mailer, factory)" in text
    assert "two, session: Session is made by an async factory" in text


def test_circles_and_bad_factories_are_refused(shop: Shop) -> None:
    class A:
        def __init__(self, b: B) -> None: ...

    class B:
        def __init__(self, a: A) -> None: ...

    def make_a(b: B) -> A:
        return A(b)

    def make_b(a: A) -> B:
        return B(a)

    make_a.__annotations__, make_b.__annotations__ = {"b": B}, {"a": A}
    shop.app.provide(A, make_a)
    shop.app.provide(B, make_b)

    def work(a: A) -> None: ...

    work.__annotations__ = {"a": A, "return": None}
    shop.app.job(work)
    with pytest.raises(ConfigError, match="A → B → A needs itself"):
        shop.app.worker()
    with pytest.raises(ConfigError, match="value="):
        shop.app.provide(int)
    with pytest.raises(ConfigError, match="scope"):
        shop.app.provide(Mailer, Mailer, scope="request")
    with pytest.raises(ConfigError, match="annotated"):
        shop.app.provide(Mailer, lambda host: Mailer(host))
    with pytest.raises(ConfigError, match=r"mailer.*annotated"):

        def unresolved(mailer: Nowhere) -> Mailer:  # type: ignore[name-defined]  # noqa: F821
            return Mailer()

        shop.app.provide(Mailer, unresolved)
    with pytest.raises(ConfigError, match="async factory"):

        async def make() -> Mailer:
            return Mailer()

        shop.app.provide(Mailer, make)


def test_two_apps_do_not_see_each_other(shop: Shop, tmp_path: Path) -> None:
    other = Shop(f"sqlite:///{tmp_path}/other.db")
    try:
        for one, name in ((shop, "first"), (other, "second")):

            @one.app.job(name="who")
            def who(mailer: Mailer) -> str:
                return mailer.name

            one.app.provide(Mailer, value=Mailer(name))
        jobs = [one.app.enqueue("who") for one in (shop, other)]
        for one in (shop, other):
            one.drained(one.serve())
        assert [shop.job(jobs[0]).result, other.job(jobs[1]).result] == ["first", "second"]
    finally:
        other.close()


def test_what_lives_as_long_as_the_process_cannot_keep_what_is_one_attempts(shop: Shop) -> None:
    """It would keep the first job's principal for everybody else's jobs."""

    class Repository:
        def __init__(self, principal: Principal) -> None:
            self.principal = principal

    def make(principal: Principal) -> Repository:
        return Repository(principal)

    def report(repository: Repository = injected()) -> str:
        return repository.principal.subject

    make.__annotations__ = {"principal": Principal, "return": Repository}
    report.__annotations__ = {"repository": Repository, "return": str}
    shop.app.provide(Repository, make)
    kind = shop.app.job(report)
    with pytest.raises(
        ConfigError, match="Repository lives as long as the process and cannot need Principal"
    ):
        shop.app.worker()
    with pytest.raises(ConfigError, match="lives as long as one attempt"):
        shop.app.parts.container.wrap(report, {"repository": Repository})()
    shop.app.provide(Repository, make, scope="job")
    jobs = [kind.options(principal=Principal(name)).enqueue() for name in ("u-1", "u-2")]
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == ["u-1", "u-2"]


def test_a_clean_up_that_catches_everything_does_not_complete_a_failed_job(shop: Shop) -> None:
    def careless(mailer: Mailer) -> Iterator[Session]:
        with suppress(Exception):  # rolled back, say, and not raised again
            yield Session(mailer)

    @shop.app.job(retry=fixed(1))
    def plain(session: Session = injected()) -> None:
        raise ValueError("plain")

    @shop.app.job(retry=fixed(1))
    async def coloured(session: Session = injected()) -> None:
        raise ValueError("coloured")

    shop.app.provide(Mailer, Mailer)
    shop.app.provide(Session, careless, scope="job")
    jobs = [plain.enqueue(), coloured.enqueue()]
    shop.drained(shop.serve())
    assert [shop.job(job).state for job in jobs] == [State.FAILED] * 2
