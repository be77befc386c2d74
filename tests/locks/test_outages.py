"""Redis is killed, restarted, emptied, frozen, paused, full or read-only: locks fall back, say so, and come back by themselves."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from tests.locks.conftest import Opener
from tests.locks.server import OwnValkey, take
from tests.locks.taking import KEY, REQUEST, can_take
from tests.observe.lines import written
from tests.observe.reports import a_report
from tests.waiting import PATIENCE, eventually
from windlass.errors import LockUnavailableError
from windlass.locks import Reason, fallback
from windlass.observe import health
from windlass.observe.metrics import Metrics
from windlass.observe.report import StatsReport

pytestmark = pytest.mark.timing


@pytest.fixture(autouse=True)
def _probe_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "PROBE_EVERY", 0.2)


def test_killed_and_started_again(own_valkey: OwnValkey, opened_locks: Opener, counts: Counter[str]) -> None:
    locks, others = opened_locks(own_valkey.url, worker="a"), opened_locks(own_valkey.url, worker="b")
    with written() as lines:
        assert locks.state().kept_in == "redis" and not locks.state().is_degraded
        own_valkey.kill()
        with locks.acquire(REQUEST) as held:
            assert held and not held.is_shared and not held.is_lost
            assert not locks.acquire(REQUEST)  # in this process it is a lock like any other
            state = locks.state()
            assert (state.kept_in, state.is_degraded, state.held) == ("process", True, 1)
            assert "ConnectionError" in state.seen and state.since is not None
            assert counts["redis_errors"] >= 1 and counts["lock_held"] == 1
            own_valkey.start()
            eventually(lambda: not locks.state().is_degraded)  # nobody asked for a lock meanwhile
            eventually(lambda: held.is_shared)  # and what was held in memory is in Redis now
            refused = others.acquire(REQUEST)
            assert not refused and refused.reason is Reason.HELD and refused.holder == "a"
        with others.acquire(REQUEST) as held:
            assert held and held.is_shared
    told = [line["event"] for line in lines.objects if line["event"] != "lock.held"]
    assert told == ["lock.degraded", "lock.restored"]


def test_the_lock_in_memory_has_a_shorter_time_of_its_own(
    own_valkey: OwnValkey, opened_locks: Opener
) -> None:
    """Somebody who dropped it without a release keeps others of the process out for that long, not for as long as in Redis."""
    locks = opened_locks(own_valkey.url, ttl_ms=300_000, fallback_ttl_ms=5000)
    own_valkey.kill()
    assert locks.acquire(REQUEST), "and dropped at once"
    assert not can_take(locks)
    eventually(lambda: can_take(locks))


def test_a_lock_that_is_held_outlives_the_time_of_the_one_in_memory(
    own_valkey: OwnValkey, opened_locks: Opener
) -> None:
    locks = opened_locks(own_valkey.url, ttl_ms=300_000, fallback_ttl_ms=5000)
    own_valkey.kill()
    with locks.acquire(REQUEST) as held:
        assert held
        ends_at = time.monotonic() + 6.0
        eventually(lambda: time.monotonic() > ends_at or held.is_lost)
        assert not held.is_lost and not can_take(locks)


def test_without_redis_from_the_start(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    own_valkey.kill()
    locks = opened_locks(own_valkey.url)
    with locks.acquire(REQUEST) as held:
        assert held and not held.is_shared
    own_valkey.start()
    eventually(lambda: not locks.state().is_degraded)
    with locks.acquire(REQUEST) as held:
        assert held and held.is_shared


def test_an_outage_is_paid_for_once(
    own_valkey: OwnValkey, opened_locks: Opener, counts: Counter[str]
) -> None:
    """The first caller waits for its time-outs; after that nobody does, and the log has one warning with what was left out."""
    locks = opened_locks(own_valkey.hasty_url)
    with own_valkey.frozen(), written() as lines:
        with locks.acquire(REQUEST):
            pass
        begun = time.monotonic()
        for number in range(500):
            with locks.acquire(f"request-{number}") as held:
                assert held and not held.is_shared
        assert time.monotonic() - begun < 30, "500 time-outs take minutes"
        assert [line["event"] for line in lines.objects] == ["lock.degraded"]
        assert lines.last["level"] == "warning" and "inside this process only" in lines.last["message"]
    eventually(lambda: not locks.state().is_degraded)


def test_a_server_that_comes_and_goes_does_not_fill_the_log(
    own_valkey: OwnValkey, opened_locks: Opener
) -> None:
    """A warning a minute; and what was not said to be gone is not said to be back."""
    locks = opened_locks(own_valkey.url)
    with written() as lines:
        for _ in range(3):
            own_valkey.kill()
            take(locks, REQUEST).release()
            assert locks.state().is_degraded
            own_valkey.start()
            eventually(lambda: not locks.state().is_degraded)
        time.sleep(0.1)
    assert [line["event"] for line in lines.objects] == ["lock.degraded", "lock.restored"]


def test_health_and_metrics_say_so(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    locks = opened_locks(own_valkey.url)

    def seen() -> tuple[str, bool]:
        report = a_report(degraded=locks.state().degraded)
        text = Metrics(StatsReport, lambda: report).render().decode()
        return health.detailed(report)["parts"]["redis lock"]["state"], 'part="redis lock"} 1.0' in text

    assert seen() == ("ok", False)
    own_valkey.kill()
    with locks.acquire(REQUEST):
        assert seen() == ("degraded", True)
    own_valkey.start()
    eventually(lambda: seen() == ("ok", False))


@pytest.mark.parametrize(
    ("hurt", "heal", "said"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "OOM|OutOfMemory"),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "ReadOnly|READONLY"),
        (
            ("ACL", "SETUSER", "default", "-eval"),
            ("ACL", "SETUSER", "default", "+eval"),
            "NoPermission|NOPERM",
        ),
    ],
    ids=["full", "read-only", "without scripts"],
)
def test_a_server_that_answers_but_gives_no_locks(
    own_valkey: OwnValkey, opened_locks: Opener, hurt: Any, heal: Any, said: str
) -> None:
    """PING would say that all is well; the probe writes."""
    locks = opened_locks(own_valkey.url)
    with own_valkey.client() as seen:
        seen.execute_command(*hurt)
        with locks.acquire("first") as held:
            assert held
        assert locks.state().is_degraded
        assert any(word in locks.state().seen for word in said.split("|")), locks.state().seen
        time.sleep(0.6)  # some probes
        assert locks.state().is_degraded
        with locks.acquire(REQUEST) as held:
            assert held and not held.is_shared
        seen.execute_command(*heal)
    eventually(lambda: not locks.state().is_degraded)
    with locks.acquire(REQUEST) as held:
        assert held and held.is_shared


def test_another_took_it_while_redis_was_away(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """Both processes hold a lock of their own; when Redis is back, one of them is told that it lost."""
    first, second = opened_locks(own_valkey.url, worker="a"), opened_locks(own_valkey.url, worker="b")
    own_valkey.kill()
    holds = [take(first, REQUEST), take(second, REQUEST)]
    assert all(hold and not hold.is_shared and not hold.is_lost for hold in holds)
    own_valkey.start()
    eventually(lambda: any(hold.is_lost for hold in holds) and any(hold.is_shared for hold in holds))
    time.sleep(0.3)
    assert sorted((hold.is_shared, hold.is_lost) for hold in holds) == [(False, True), (True, False)]
    for hold in sorted(holds, key=lambda hold: hold.is_shared):  # the loser must not end the winner's
        assert hold.release() is not hold.is_lost
    with own_valkey.client() as seen:
        assert seen.keys("*") == []


# ---------------------------------------------------------------------- required, and not wanted


def test_required_fails_hard_and_recovers(
    own_valkey: OwnValkey, opened_locks: Opener, counts: Counter[str]
) -> None:
    locks = opened_locks(own_valkey.url, required=True)
    with locks.acquire(REQUEST) as held:
        assert held and held.is_shared
        assert not locks.acquire(REQUEST)  # contention is not an outage
    own_valkey.kill()
    with written() as lines:
        for _ in range(3):
            with pytest.raises(LockUnavailableError, match=r"request 0190-a cannot be locked: .*refused"):
                locks.acquire(REQUEST)
    assert [line["event"] for line in lines.objects] == ["lock.degraded"]
    assert "requests are refused" in lines.last["message"]
    assert locks.state().is_degraded and locks.state().held == 0
    assert counts["redis_errors"] >= 1
    own_valkey.start()
    eventually(lambda: not locks.state().is_degraded)
    with locks.acquire(REQUEST) as held:
        assert held and held.is_shared


def test_not_enabled_never_asks_redis(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    locks, others = (opened_locks(own_valkey.url, enabled=False) for _ in range(2))
    with locks.acquire(REQUEST) as held, own_valkey.client() as seen:
        assert held and not held.is_shared
        assert seen.keys("*") == []
        assert not locks.acquire(REQUEST)
        assert others.acquire(REQUEST)  # another process
        assert len(seen.client_list()) == 1  # ours that looks
    own_valkey.kill()
    with locks.acquire(REQUEST) as held:
        assert held
    assert locks.state().kept_in == "process" and not locks.state().is_degraded


# ---------------------------------------------------------------------- everything at once


@pytest.mark.slow
def test_one_holder_per_process_whatever_happens_to_redis(
    own_valkey: OwnValkey, opened_locks: Opener
) -> None:
    """Two processes' worth of locks, 32 threads, a server that is killed, frozen, paused and emptied: in each process one at a time, no
    call raises or hangs, and in the end everything is as it was."""
    processes = [
        opened_locks(own_valkey.hasty_url, worker=f"worker-{number}", ttl_ms=2000) for number in range(2)
    ]
    inside, most, entered = [0, 0], [0, 0], [0, 0]
    guard, over = threading.Lock(), threading.Event()
    raised: list[BaseException] = []
    slowest = [0.0]

    def contend(place: int) -> None:
        try:
            while not over.is_set():
                begun = time.monotonic()
                with processes[place].acquire(REQUEST) as lock:
                    slowest[0] = max(slowest[0], time.monotonic() - begun)
                    if not lock:
                        time.sleep(0.005)
                        continue
                    with guard:
                        inside[place] += 1
                        most[place] = max(most[place], inside[place])
                    time.sleep(0.001)
                    with guard:
                        inside[place] -= 1
                        entered[place] += 1
        except BaseException as error:  # noqa: BLE001  whatever it was, the test must hear of it
            raised.append(error)

    threads = [threading.Thread(target=contend, args=(number % 2,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.3)
        own_valkey.kill()
        time.sleep(0.3)
        own_valkey.start()
        time.sleep(0.5)
        with own_valkey.frozen():
            time.sleep(1.2)
        time.sleep(0.5)
        with own_valkey.client() as seen, suppress(OSError):
            for _ in range(20):
                seen.flushall()
                time.sleep(0.01)
            seen.execute_command("CLIENT", "PAUSE", "700", "ALL")
        time.sleep(1.0)
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads) and raised == []
    assert most == [1, 1] and inside == [0, 0] and min(entered) > 5
    assert slowest[0] < PATIENCE / 2, "no call hangs"
    eventually(lambda: not any(locks.state().is_degraded for locks in processes))
    assert [locks.state().held for locks in processes] == [0, 0]
    with own_valkey.client() as seen:
        eventually(lambda: seen.keys("*") == [])


def test_a_release_that_finds_somebody_elses_key_says_so(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """Also before the next renewal would have noticed."""
    held = take(opened_locks(own_valkey.url), REQUEST)
    with own_valkey.client() as seen:
        seen.set(KEY, "somebody else's")
        assert not held.is_lost and not held.release() and held.is_lost
        assert seen.get(KEY) == "somebody else's"


def test_a_time_out_as_long_as_the_ttl_lets_no_second_thread_in(
    own_valkey: OwnValkey, opened_locks: Opener
) -> None:
    locks = opened_locks(own_valkey.hasty_url, ttl_ms=1000)
    with own_valkey.frozen():
        held = take(locks, REQUEST)  # two time-outs of half a second
        assert not held.is_lost and not locks.acquire(REQUEST)
