"""An error that a program keeps, as error reporters do, keeps no lock and no connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.engine.shop import Shop

JOIN = 30.0


class Ctrl(BaseException):
    """What the handler of a signal raises."""


@pytest.mark.parametrize("way", ["submit one", "submit many", "read"])
def test_an_error_that_is_kept_keeps_no_lock(shop: Shop, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """The exception of a signal comes just when a context manager was entered, before the ``with`` statement has it: only the frames
    of the error refer to it. Once at each context manager of a call; the errors are kept, as error reporters do."""

    @shop.app.job
    def work(n: int) -> None: ...

    job = work.enqueue(n=0).id
    calls: dict[str, Callable[[], Any]] = {
        "submit one": lambda: work.enqueue(n=1),
        "submit many": lambda: work.enqueue_many(
            [work.options(key=f"{number}").request(1) for number in range(3)]
        ),
        "read": lambda: shop.store.jobs.get(job),
    }
    kept: list[BaseException] = []
    enter = contextlib._GeneratorContextManager.__enter__
    left = [0]

    def interrupted(self: Any) -> Any:
        value = enter(self)
        if threading.current_thread() is threading.main_thread():
            left[0] -= 1
            if left[0] == 0:
                raise Ctrl
        return value

    for place in range(1, 100):
        with monkeypatch.context() as patch:
            patch.setattr("contextlib._GeneratorContextManager.__enter__", interrupted)
            left[0] = place
            try:
                calls[way]()
            except Ctrl as error:
                kept.append(error)
            if left[0] > 0:
                break
        with ThreadPoolExecutor(1) as other:
            other.submit(calls[way]).result(JOIN)
        calls[way]()
    assert len(kept) == place - 1 > 0
