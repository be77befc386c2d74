"""Simulated users: three readers of pages, and an official of each county. Each clicks twice now and then, as people do."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from windlass import JobHandle, Principal, Throttle
from windlass_examples.timesheets import access, data
from windlass_examples.timesheets.jobs import app as reports
from windlass_examples.timesheets.jobs import hours, leave
from windlass_examples.visibility.jobs import visibility
from windlass_examples.web.servers import PATHS

READERS = ("Ana", "Ben", "Eva")
PAGES_EACH = 8
PAUSE = 0.5
"""Seconds between two orders of a user, on average."""
READERS_BREAK, OFFICIALS_BREAK = 4.0, 20.0
"""Seconds until a user comes back, on average, if the demonstration does not end."""

Order = Callable[[], JobHandle[Any]]


class Users:
    """Threads that submit jobs, and how many of their submissions found the job already there."""

    def __init__(self, site: str, *, is_endless: bool) -> None:
        self._is_endless = is_endless
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self.submitted = self.duplicates = 0
        self.errors: list[BaseException] = []
        people = [
            (name, list(_pages(site, number, f"?from={name}" if is_endless else "")), READERS_BREAK)
            for number, name in enumerate(READERS)
        ]
        if is_endless:
            people[-1][1].append(_dead_link(site))
        people += [(county, list(_reports(county)), OFFICIALS_BREAK) for county in data.COUNTIES]
        self._threads = [
            threading.Thread(
                target=self._work, args=(number, orders, pause), name=f"user {name}", daemon=True
            )
            for number, (name, orders, pause) in enumerate(people)
        ]

    @property
    def are_done(self) -> bool:
        """Whether no user submits anything any more."""
        return not any(thread.is_alive() for thread in self._threads)

    @contextmanager
    def at_work(self, *, is_wanted: bool = True) -> Iterator[None]:
        """Let the users work until the end of the block, or until each has submitted all jobs."""
        started = self._threads if is_wanted else []
        for thread in started:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in started:
                thread.join(10)

    def _work(self, number: int, orders: list[Order], pause: float) -> None:
        chance = random.Random(number)
        try:
            while True:
                for place, order in enumerate(orders):
                    if self._stopping.wait(chance.uniform(0.5, 1.5) * PAUSE):
                        return
                    for _ in range(2 if place % 2 == 0 else 1):  # every other order is a double click
                        self._count(order())
                if not self._is_endless or self._stopping.wait(chance.uniform(0.5, 1.5) * pause):
                    return
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            self.errors.append(error)

    def _count(self, job: JobHandle[Any]) -> None:
        with self._lock:
            self.submitted += 1
            self.duplicates += not job.created


def _pages(site: str, number: int, query: str) -> Iterator[Order]:
    """The pages of a reader. The key is the page: while one reader's job of it runs, another reader gets the same job. A query of each
    reader makes them different pages, and so more work."""
    for place in range(PAGES_EACH):
        url = f"http://{site}{PATHS[(number + place) % len(PATHS)]}{query}"
        yield lambda url=url: visibility.options(key=url).enqueue(url=url)  # type: ignore[misc]


def _dead_link(site: str) -> Order:
    """A page that is not there: its job fails, and the dashboard shows it. A minute's throttle keeps it at one failure a minute."""
    url = f"http://{site}/pages/moved"
    return lambda: visibility.options(throttle=Throttle(url, 60)).enqueue(url=url)


def _reports(county: str) -> Iterator[Order]:
    """The exports of a county, in the name of its manager."""
    manager = Principal(f"manager of {county}", roles={access.MANAGER}, attributes={"county": [county]})
    for period in data.PERIODS:
        for kind in (hours, leave):

            def order(kind: Any = kind, period: str = period) -> JobHandle[Any]:
                key = f"{manager.subject}/{kind.name}/{county}/{period}"
                with reports.as_principal(manager):
                    handle: JobHandle[Any] = kind.options(key=key).enqueue(
                        period=period, county=county, owner=manager.subject
                    )
                return handle

            yield order
