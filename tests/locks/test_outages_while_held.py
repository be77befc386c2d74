"""Redis is emptied, restarted, frozen or paused while a lock is held: the holder keeps its lock, or learns that it is lost."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.locks.conftest import Opener
from tests.locks.server import LostReply, OwnValkey, take
from tests.locks.taking import KEY, REQUEST, can_take
from tests.observe.lines import written
from tests.waiting import eventually
from windlass.locks import fallback

pytestmark = pytest.mark.timing


@pytest.fixture(autouse=True)
def _probe_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "PROBE_EVERY", 0.2)


def test_emptied_while_held(own_valkey: OwnValkey, opened_locks: Opener, counts: Counter[str]) -> None:
    """FLUSHALL: the next renewal finds that the lock is lost, and whoever took it meanwhile keeps it."""
    mine, others = opened_locks(own_valkey.url, ttl_ms=1000), opened_locks(own_valkey.url, worker="b")
    with written() as lines, own_valkey.client() as seen:
        held = take(mine, REQUEST)
        seen.flushall()
        with others.acquire(REQUEST) as theirs:
            assert theirs
            eventually(lambda: held.is_lost)
            eventually(lambda: counts["locks_lost"] == 1)
            assert not mine.acquire(REQUEST)  # for this process it is still in use
            assert not held.release()
            assert theirs.renew() and seen.exists(KEY) and not theirs.is_lost
        assert not seen.exists(KEY)
    lost = [line for line in lines.objects if line["event"] == "lock.lost"]
    assert [line["job_id"] for line in lost] == [REQUEST]
    assert not mine.state().is_degraded  # Redis answers; it only forgot


def test_restarted_while_held(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    locks = opened_locks(own_valkey.url, ttl_ms=1000)
    held = take(locks, REQUEST)
    assert held.is_shared
    own_valkey.kill()
    own_valkey.start()
    eventually(lambda: held.is_lost)
    assert not held.is_shared and not held.release()
    with locks.acquire(REQUEST) as again:
        assert again and again.is_shared


def test_frozen_for_less_than_the_ttl(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """SIGSTOP for seconds: renewals fail, nothing is lost, and the lock is renewed when the server goes on."""
    locks, others = (
        opened_locks(own_valkey.hasty_url, ttl_ms=20_000),
        opened_locks(own_valkey.hasty_url, worker="b"),
    )
    held = take(locks, REQUEST)
    with own_valkey.frozen():
        time.sleep(2.5)
        with locks.acquire("another"):
            assert locks.state().is_degraded and not held.is_lost
    eventually(lambda: not locks.state().is_degraded)
    with own_valkey.client() as seen:
        eventually(lambda: seen.pttl(KEY) > 18_000)
    assert not others.acquire(REQUEST)
    assert not held.is_lost and held.release()


def test_frozen_for_longer_than_the_ttl(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """The lock is lost by our own clock, before the server could give it to another."""
    locks = opened_locks(own_valkey.hasty_url, ttl_ms=1000)
    held = take(locks, REQUEST)
    with own_valkey.frozen():
        eventually(lambda: held.is_lost)
        assert not held.renew() and not held.is_shared
    eventually(lambda: not locks.state().is_degraded)
    others = opened_locks(own_valkey.hasty_url, worker="b")
    eventually(lambda: can_take(others))  # not at once: a renewal may have been on its way, and land
    with others.acquire(REQUEST) as theirs:
        assert theirs and not held.release()
        assert not theirs.is_lost and theirs.renew()


def test_a_set_that_lands_late_is_ours(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """A frozen server reads the SET of a caller that gave up when it goes on. The key is not taken for another's, and not left behind."""
    locks = opened_locks(own_valkey.hasty_url, worker="a")
    with own_valkey.frozen():
        held = take(locks, REQUEST)
        assert held and not held.is_shared
    eventually(lambda: not locks.state().is_degraded)
    eventually(lambda: held.is_shared)
    assert not held.is_lost and held.release()
    with own_valkey.client() as seen:
        assert seen.keys("*") == []
    with own_valkey.frozen():  # the same, with the work done before the server goes on
        assert take(locks, REQUEST).release()
    eventually(lambda: not locks.state().is_degraded)
    with own_valkey.client() as seen:
        eventually(lambda: seen.keys("*") == [])
    with locks.acquire(REQUEST) as held:
        assert held and held.is_shared


def test_a_release_whose_reply_was_lost(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    locks = opened_locks(own_valkey.hasty_url)
    held = take(locks, REQUEST)
    with own_valkey.frozen():
        held.release()
    with locks.acquire(REQUEST) as again:  # at once, before Redis is asked again
        assert again
    eventually(lambda: not locks.state().is_degraded)
    with own_valkey.client() as seen:
        eventually(lambda: seen.keys("*") == [])


def test_a_lock_left_behind_is_not_anothers(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """Its value is one of those that could not be removed; whoever comes first removes it."""
    with LostReply(own_valkey, b"'DEL'") as proxy:
        locks = opened_locks(proxy.url)
        held = take(locks, REQUEST)
        with own_valkey.client() as seen:
            value = seen.get(KEY)
            assert held.release() and proxy.lost == 1
            assert locks.state().is_degraded
            eventually(lambda: not locks.state().is_degraded)
            seen.set(KEY, value)  # it arrives only now, after everything owed was settled
            with locks.acquire(REQUEST) as again:
                assert again and again.is_shared
                assert seen.get(KEY) != value
            assert seen.keys("*") == []


def test_paused_clients(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """CLIENT PAUSE, as a failover does: commands are taken and answered late."""
    locks = opened_locks(own_valkey.hasty_url)
    with take(locks, "before") as before, own_valkey.client() as seen:
        seen.execute_command("CLIENT", "PAUSE", "1500", "ALL")
        with locks.acquire(REQUEST) as held:
            assert held and not held.is_shared
            assert locks.state().is_degraded
            eventually(lambda: not locks.state().is_degraded)
            eventually(lambda: held.is_shared)
        assert not before.is_lost and before.is_shared
    with own_valkey.client() as seen:
        eventually(lambda: seen.keys("*") == [])
