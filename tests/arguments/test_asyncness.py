"""The colour of a handler: what is called decides, whatever decorators stand around it."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.arguments.signature import Signature
from windlass.errors import ConfigError, PayloadError
from windlass.handlers.inject import Container
from windlass.handlers.phase_options import Where
from windlass.handlers.registry import Registry
from windlass.model.retry import fixed
from windlass.testing import Sandbox


def plain(n: int) -> int:
    return n * 2


async def coroutine(n: int) -> int:
    await asyncio.sleep(0)
    return n * 2


class Plain:
    def __call__(self, n: int) -> int:
        return n * 2

    async def method(self, n: int) -> int:
        return n * 2


class Async:
    async def __call__(self, n: int) -> int:
        return n * 2


def made_async(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    return wrapper


def made_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return wrapper


def handed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Later:
    """An awaitable that is neither a coroutine nor a task."""

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Any:
        return self._coroutine.__await__()


def giving(give: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A plain decorator that makes something else of the coroutine."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return give(function(*args, **kwargs))

        return wrapper

    return decorate


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (plain, False),
        (coroutine, True),
        (functools.partial(coroutine, n=1), True),
        (functools.partial(Async(), n=1), True),
        (Plain().method, True),
        (Plain(), False),
        (Async(), True),
        (Async, False),
        (made_async(plain), True),
        (made_plain(coroutine), True),
        (handed_on(coroutine), True),
        (handed_on(plain), False),
        (handed_on(Async()), True),
        (handed_on(made_async(plain)), True),
        (made_async(made_plain(coroutine)), True),
    ],
)
def test_what_is_called_decides(handler: Callable[..., Any], expected: bool) -> None:
    assert is_async(handler) is expected


def test_a_function_that_is_marked_as_async_is() -> None:
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is None:
        pytest.skip("inspect.markcoroutinefunction came with Python 3.12")
    assert is_async(mark(lambda n: coroutine(n)))


HANDLERS: dict[str, Callable[..., Any]] = {
    "made_async": made_async(plain),
    "made_plain": made_plain(coroutine),
    "handed_on": handed_on(coroutine),
    "handed_on_async": handed_on(made_async(plain)),
    "handed_on_plain": handed_on(made_plain(coroutine)),
    "given_task": giving(asyncio.ensure_future)(coroutine),
    "given_awaitable": giving(Later)(coroutine),
    "object_async": Async(),
    "object_plain": Plain(),
}


EXECUTORS = {"made_plain": "thread", "handed_on_plain": "thread"}


def test_all_of_them_work_in_an_engine(fresh_sqlite: Callable[[], str]) -> None:
    with closing(Shop(fresh_sqlite())) as shop:
        kinds = {
            name: shop.app.job(name=name, retry=fixed(1), executor=EXECUTORS.get(name))(handler)
            for name, handler in HANDLERS.items()
        }
        jobs = {name: [kind.enqueue(n=n) for n in range(3)] for name, kind in kinds.items()}
        shop.drained(shop.serve())
        assert {name: [shop.job(job).result for job in made] for name, made in jobs.items()} == {
            name: [0, 2, 4] for name in HANDLERS
        }


def test_and_in_a_sandbox() -> None:
    app = App()
    for name, handler in HANDLERS.items():
        app.job(name=name, executor=EXECUTORS.get(name))(handler)
    with Sandbox(app) as box:
        for name in HANDLERS:
            box.app.enqueue(name, n=2)
        box.drain()
        assert {job.kind: job.result for job in box.jobs()} == dict.fromkeys(HANDLERS, 4)


def test_the_executor_follows_the_colour() -> None:
    registry = Registry()
    assert registry.define("a", made_async(plain)).where is Where.LOOP
    assert registry.define("b", made_plain(coroutine)).where is Where.LOOP
    said = registry.define("c", made_plain(coroutine), executor="thread")
    assert said.where is Where.THREAD and not is_async(said.handler)
    with pytest.raises(ConfigError, match="async handler"):
        registry.define("d", made_async(plain), executor="thread")


def test_a_factory_that_is_an_object_with_an_async_call_is_async() -> None:
    class Maker:
        async def __call__(self) -> str:
            return "made"

    with pytest.raises(ConfigError, match="async factory"):
        Container().provide(str, Maker())


def annotated() -> str:
    return ""


@pytest.mark.parametrize("handler", [lambda: None, annotated], ids=["bare", "annotated"])
def test_a_coroutine_as_a_result_says_what_to_do(handler: Callable[[], Any]) -> None:
    left = coroutine(1)
    with pytest.raises(
        PayloadError, match=r"result is a coroutine that was not awaited; await it in an async"
    ):
        Signature.of(handler).encode_result(left)
    left.close()


def test_a_coroutine_as_an_argument_says_what_to_do() -> None:
    def send(to: str) -> None: ...

    left = coroutine(1)
    with pytest.raises(PayloadError, match=r"args\.to is a coroutine that was not awaited; await it"):
        Signature.of(send).encode_args(to=left)
    left.close()
