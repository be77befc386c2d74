"""What every lock promises, in memory, in Redis, and in both."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import redis

from tests.locks.conftest import Opener
from tests.locks.server import take
from tests.observe.lines import written
from tests.waiting import PATIENCE, eventually
from windlass.clock import ManualClock
from windlass.locks import LockSettings, NotHeld, Reason, open_locks
from windlass.locks.contract import Keys
from windlass.locks.keyed import KeyLocks
from windlass.locks.local import LocalKeys
from windlass.locks.redis import RedisKeys, connect

pytestmark = pytest.mark.timing

Make = Callable[..., Any]
REQUEST = "0190-a"


@pytest.fixture(params=["local", "redis", "both", "process alone"])
def make(request: pytest.FixtureRequest, opened_locks: Opener) -> Make:
    """Makes locks of one kind; those of one test see each other, as far as their kind does."""
    kind = request.param
    if kind == "local":
        keys: Keys = LocalKeys()
        return lambda worker="worker-1", **changes: KeyLocks(
            keys, LockSettings(**changes), worker=worker, is_shared=False
        )
    if kind == "process alone":
        made: list[Any] = []

        def one(worker: str = "worker-1", **changes: Any) -> Any:
            made.append(opened_locks(worker=worker, **changes) if not made else made[0])
            return made[-1]

        return one
    url = request.getfixturevalue("valkey_url")
    if kind == "both":
        return lambda worker="worker-1", **changes: opened_locks(url, worker=worker, **changes)

    def alone(worker: str = "worker-1", **changes: Any) -> KeyLocks:
        client = connect(url)
        request.addfinalizer(client.close)
        return KeyLocks(RedisKeys(client), LockSettings(**changes), worker=worker, is_shared=True)

    return alone


def test_one_holds_it_and_others_are_told_who(make: Make) -> None:
    first, second = make("worker-1"), make("worker-2")
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    with first.acquire(REQUEST) as held:
        assert held and not held.is_lost and held.key == "bg:req:0190-a"
        refused = second.acquire(REQUEST)
        assert isinstance(refused, NotHeld) and not refused
        assert (refused.reason, refused.holder) == (Reason.HELD, "worker-1")
        assert refused.since is not None and before <= refused.since <= datetime.now(UTC)
        assert second.acquire("0190-b")  # another request is another lock
    with second.acquire(REQUEST) as held:
        assert held


def test_the_same_owner_does_not_get_it_twice(make: Make) -> None:
    locks = make()
    with locks.acquire(REQUEST):
        assert not locks.acquire(REQUEST)


def test_a_block_that_raises_releases(make: Make) -> None:
    locks = make()
    with pytest.raises(RuntimeError), locks.acquire(REQUEST):
        raise RuntimeError
    assert locks.acquire(REQUEST)


def test_a_block_without_the_lock_touches_nothing(make: Make) -> None:
    locks = make()
    held = take(locks, REQUEST)
    with locks.acquire(REQUEST) as refused:
        assert not refused
    assert not held.is_lost and held.renew()
    assert not locks.acquire(REQUEST)


def test_released_once(make: Make) -> None:
    locks = make()
    held = take(locks, REQUEST)
    assert held.release()
    assert not held.release() and not held.renew() and not held.is_lost
    with locks.acquire(REQUEST) as again:
        assert again
        assert not held.release()  # a late caller must not end what is now somebody else's
        assert not again.is_lost and again.renew()


def test_64_threads_and_never_two_at_once(make: Make) -> None:
    """An independent counter inside the lock sees at most one, and everybody who was refused changed nothing."""
    locks = [make(f"worker-{number}") for number in range(4)]
    inside, most, entered = [0], [0], [0]
    guard = threading.Lock()
    start = threading.Barrier(64)
    deadline = time.monotonic() + PATIENCE

    def contend(own: Any) -> None:
        start.wait()
        while entered[0] < 100 and time.monotonic() < deadline:
            with own.acquire(REQUEST) as lock:
                if not lock:
                    assert lock.reason is Reason.HELD
                    time.sleep(0.002)  # 64 threads that spin would leave the holder no time
                    continue
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                with guard:
                    inside[0] -= 1
                    entered[0] += 1

    threads = [threading.Thread(target=contend, args=(locks[number % 4],)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and inside == [0]
    assert entered[0] >= 20


# ---------------------------------------------------------------------- the time to live


@pytest.fixture(params=["local", "redis"])
def unrenewed(request: pytest.FixtureRequest) -> Iterator[Callable[[str], KeyLocks]]:
    """Locks that nobody renews, with a TTL of a few seconds."""
    settings = LockSettings(ttl_ms=6000)
    with ExitStack() as stack:
        keys: Keys = LocalKeys()
        if request.param == "redis":
            keys = RedisKeys(stack.enter_context(connect(request.getfixturevalue("valkey_url"))))
        yield lambda worker: KeyLocks(keys, settings, worker=worker, is_shared=request.param == "redis")


def test_a_ttl_shorter_than_the_hold_loses_it_and_never_ends_anothers(
    unrenewed: Callable[[str], KeyLocks],
) -> None:
    held = take(unrenewed("slow"), REQUEST)
    assert held and not held.is_lost
    others = unrenewed("quick")
    assert not others.acquire(REQUEST)
    eventually(lambda: held.is_lost)  # by its own clock, no later than another can have it
    eventually(lambda: others.acquire(REQUEST))
    assert not held.renew() and not held.release() and held.is_lost
    refused = others.acquire(REQUEST)
    assert not refused and refused.holder == "quick"


def test_renewing_keeps_it_past_its_ttl(unrenewed: Callable[[str], KeyLocks]) -> None:
    held = take(unrenewed("slow"), REQUEST)
    others = unrenewed("quick")
    end = time.monotonic() + 7.0
    while time.monotonic() < end:
        assert held and held.renew()
        assert not others.acquire(REQUEST)
        time.sleep(0.2)
    assert held and held.release()
    assert others.acquire(REQUEST)


def test_a_stall_of_the_owner_is_noticed_by_its_own_clock() -> None:
    """After a pause longer than the TTL the lock counts as lost before anybody was asked."""
    now = [100.0]
    keys = LocalKeys(lambda: now[0])
    locks = KeyLocks(
        keys, LockSettings(ttl_ms=5000), worker="w", is_shared=False, monotonic=lambda: now[0], clock=ManualClock()
    )  # fmt: skip
    held = take(locks, REQUEST)
    now[0] += 4.999
    assert held and not held.is_lost and held.renew()
    now[0] += 5.0
    assert held.is_lost
    assert not held.renew() and not held.release()
    assert locks.acquire(REQUEST)


def test_a_renewal_that_meets_the_release_is_no_loss() -> None:
    """Another thread releases while the server is being asked, so that the key is gone when the renewal gets there."""

    class Slow(LocalKeys):
        def extend(self, key: str, value: str, ttl_ms: int) -> bool:
            assert held.release()
            return super().extend(key, value, ttl_ms)

    held = take(KeyLocks(Slow(), LockSettings(), worker="w", is_shared=False), REQUEST)
    assert not held.renew() and not held.is_lost


def test_a_key_in_memory_ends_to_the_moment() -> None:
    """Also between two sweeps."""
    now = [0.0]
    keys = LocalKeys(lambda: now[0])
    for moment, key in ((0.0, "a"), (0.9, "b"), (1.0, "c")):
        now[0] = moment
        assert keys.take(key, "mine", 1000) is None
    now[0] = 1.89
    assert keys.take("b", "theirs", 1000) == "mine"
    now[0] = 1.9
    assert not keys.extend("b", "mine", 1000) and not keys.drop("b", "mine")
    assert keys.take("b", "theirs", 1000) is None
    assert keys.extend("c", "mine", 1000)
    now[0] = 2.89
    assert keys.drop("c", "mine")


def test_keys_in_memory_do_not_pile_up() -> None:
    now = [0.0]
    keys = LocalKeys(lambda: now[0])
    for number in range(1000):
        assert keys.take(f"key-{number}", "mine", 1000) is None
    now[0] = 2.0
    assert keys.take("another", "mine", 1000) is None
    assert len(keys) == 1


# ---------------------------------------------------------------------- renewed while the work lasts


@pytest.mark.parametrize("is_shared", [True, False])
def test_locks_are_renewed_by_one_thread(
    opened_locks: Opener, request: pytest.FixtureRequest, is_shared: bool
) -> None:
    url = request.getfixturevalue("valkey_url") if is_shared else None
    locks = opened_locks(url, ttl_ms=8000)
    before = {thread.name for thread in threading.enumerate()}
    held = [locks.acquire(f"request-{number}") for number in range(20)]
    started = [thread.name for thread in threading.enumerate() if thread.name not in before]
    assert started.count("windlass-locks") == 1
    assert locks.state().held == 20
    time.sleep(9.0)
    for item in held:
        assert item and not item.is_lost and item.is_shared is is_shared
        assert not locks.acquire(item.request_id)
        assert item.release()
    assert locks.state().held == 0


def test_a_lock_that_was_forgotten_ends(opened_locks: Opener, valkey_url: str) -> None:
    """Nobody refers to it, so nobody renews it."""
    locks = opened_locks(valkey_url, ttl_ms=2000)
    assert locks.acquire(REQUEST)  # and drop it
    gc.collect()
    assert locks.state().held == 0
    left = 2000
    with redis.Redis.from_url(valkey_url) as client:  # until it has ended by itself
        while (now_left := cast(int, client.pttl(f"bg:req:{REQUEST}"))) > 0:
            assert now_left <= left, "somebody renewed it"
            left = now_left
    eventually(lambda: locks.acquire(REQUEST), "the end of this process's own part of it")


def test_held_by_another_is_logged_and_counted(
    opened_locks: Opener, valkey_url: str, counts: Counter[str]
) -> None:
    first, second = opened_locks(valkey_url, worker="worker-1"), opened_locks(valkey_url, worker="worker-2")
    with first.acquire(REQUEST), written() as lines:
        assert not second.acquire(REQUEST)
        assert not first.acquire(REQUEST)
    assert [(line["event"], line["job_id"], line["fields"]["holder"]) for line in lines.objects] == [
        ("lock.held", REQUEST, "worker-1")
    ] * 2
    assert counts == {"lock_held": 2}


def test_each_process_has_a_name_of_its_own() -> None:
    holders = set()
    for _ in range(2):
        with open_locks() as locks, locks.acquire(REQUEST):
            refused = locks.acquire(REQUEST)
            assert isinstance(refused, NotHeld)
            holders.add(refused.holder)
    assert len(holders) == 2 and None not in holders


def test_closed_locks_give_none(opened_locks: Opener, valkey_url: str) -> None:
    locks = opened_locks(valkey_url)
    held = take(locks, REQUEST)
    locks.close()
    with pytest.raises(Exception, match="0190-b cannot be locked: these locks were closed"):
        locks.acquire("0190-b")
    assert held.release()


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")  # Python 3.12 and later warn of forks beside threads; that is what is tried here
from windlass.locks import LockSettings, open_locks
locks = open_locks(LockSettings(url=sys.argv[1]) if len(sys.argv) > 1 else None)
held = locks.acquire("0190-a")
child = os.fork()
if child == 0:
    assert not held.release() and not held.renew()
    own = locks.acquire("0190-b")
    assert own and own.renew() and locks.state().held == 1
    # Without Redis each process has its own locks; with it, the parent's are seen.
    assert bool(locks.acquire("0190-a")) is (len(sys.argv) == 1)
    assert own.release()
    locks.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert held.renew() and not locks.acquire("0190-a") and held.release()
"""


@pytest.mark.parametrize("kept_in", ["process", "redis"])
def test_a_forked_child_holds_nothing_and_can_lock(kept_in: str, request: pytest.FixtureRequest) -> None:
    url = [request.getfixturevalue("valkey_url")] if kept_in == "redis" else []
    subprocess.run([sys.executable, "-c", FORKED, *url], check=True, timeout=PATIENCE)
