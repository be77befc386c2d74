"""Parts of an application that were used before its server forked: requests, objects of the process, keys of tokens."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.forked import Child
from tests.engine.shop import Shop
from tests.principals.tokens import SECRET, b64, signed, verifier
from tests.waiting import PATIENCE
from windlass import injected
from windlass.engine.one_job import OneJobRunner, Status
from windlass.errors import LockUnavailableError
from windlass.integrations.flask import Windlass
from windlass.locks.fallback import FallbackLocks
from windlass.locks.local import LocalKeys
from windlass.locks.settings import LockSettings
from windlass.observe.logger import Quiet

pytestmark = [pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"), pytest.mark.timing]


class AbsentKeys(LocalKeys):
    """Keys on a server that is away until it is not."""

    is_away = True

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        if self.is_away:
            raise LockUnavailableError(f"the key {key}", "away")
        return super().take(key, value, ttl_ms)


class Pool:
    """Belongs to the process that made it."""

    def __init__(self) -> None:
        self.pid = os.getpid()


def test_requests_that_ran_before_a_fork_run_after_it(shop: Shop) -> None:
    """The child is an instance of its own, with threads of its own; the parent's lease and places stay the parent's."""

    @shop.app.job
    def work() -> int:
        return 1

    made = [work.enqueue() for _ in range(4)]
    with OneJobRunner(
        shop.store, shop.app.parts.registry, settings=shop.app.settings.changed(max_concurrent_calls=1)
    ) as requests:
        assert requests.process(made[0].id).status is Status.COMPLETED
        parent = requests.report().instance

        def run() -> None:
            assert requests.process(made[1].id).status is Status.COMPLETED
            assert requests.report().instance != parent
            requests.close()

        assert requests.places is not None
        with requests.places:  # of a job that runs in the parent
            assert Child(run).code == 0
        assert requests.process(made[2].id).status is Status.COMPLETED
        assert requests.report().instance == parent
        assert [item.id for item in shop.store.instances.list()] == [parent]


def test_objects_of_the_process_are_made_anew_in_a_child(shop: Shop) -> None:
    """A pool that was made before the fork is the parent's, and is not closed by the child."""
    closed: list[int] = []

    def pool() -> Iterator[Pool]:
        made = Pool()
        try:
            yield made
        finally:
            closed.append(made.pid)

    shop.app.provide(Pool, pool)

    @shop.app.job
    def work(pool: Pool = injected()) -> int:
        return pool.pid

    requests = OneJobRunner(
        shop.store, shop.app.parts.registry, settings=shop.app.settings, wrap=shop.app.parts.wrap
    )
    made = [work.enqueue() for _ in range(2)]
    assert requests.process(made[0].id).job.result == os.getpid()
    lock = shop.app.parts.container._lock

    def run() -> None:
        assert requests.process(made[1].id).job.result == os.getpid()
        gc.collect()
        assert closed == []
        shop.app.parts.container.close()
        assert closed == [os.getpid()]

    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(PATIENCE)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(PATIENCE)
    assert Child(run).code == 0, "though a thread of the parent was making an object"
    release.set()
    holding.join()
    requests.close()


def test_a_fork_while_keys_are_fetched() -> None:
    """The thread that fetches does not exist in the child, which fetches for itself."""
    parent = os.getpid()
    fetching, release = threading.Event(), threading.Event()

    def fetch() -> dict[str, Any]:
        if os.getpid() == parent:
            fetching.set()
            release.wait(PATIENCE)
        return {"keys": [{"kty": "oct", "kid": "hs", "k": b64(SECRET), "alg": "HS256"}]}

    checked = verifier(keys=fetch, monotonic=lambda: 0.0)
    token = signed(SECRET, "HS256", "hs")
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(checked.verify(token).subject))
    thread.start()
    assert fetching.wait(PATIENCE)
    child = Child(lambda: checked.verify(token))
    code = child.code
    release.set()
    thread.join()
    assert code == 0 and found == ["u-7"]


def test_locks_that_were_degraded_before_a_fork_recover_in_the_child() -> None:
    """The thread that checks whether Redis is back is the parent's."""
    keys = AbsentKeys()
    with FallbackLocks(LockSettings(), worker="w-1", shared=keys) as locks:
        held: Any = locks.acquire("0190-a")
        assert held and not held.is_shared and locks.state().is_degraded

        def child() -> None:
            keys.is_away = False
            own: Any = locks.acquire("0190-b")
            assert own.is_shared and not locks.state().is_degraded
            assert locks.state().held == 1
            assert "windlass-locks" in {thread.name for thread in threading.enumerate()}

        assert Child(child).code == 0
        assert locks.state().is_degraded and held.release()


@pytest.mark.parametrize("thing", [Quiet(), Windlass()], ids=["records", "flask"])
def test_a_lock_of_the_parent_does_not_stop_the_child(thing: Any) -> None:
    name = "_lock" if isinstance(thing, Quiet) else "_loading"
    with getattr(thing, name):
        assert Child(lambda: None if getattr(thing, name).acquire(blocking=False) else os._exit(3)).code == 0
