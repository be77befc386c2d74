"""Locks of owners that the database says have ended: replaced in Redis, exactly the value that was judged, and no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis

from tests.conformance.life import claim_one, one
from tests.locks.conftest import Opener
from tests.locks.server import LostReply, OwnValkey, take
from tests.locks.taking import KEY, REQUEST
from tests.observe.lines import written
from windlass.clock import ManualClock
from windlass.engine.lock_owners import LockOwners
from windlass.errors import LockUnavailableError
from windlass.features import Store
from windlass.locks.contract import Held, Owner
from windlass.store.ids import new_id

DEAD, OURS = Owner("instance-1", 7), Owner("instance-2", 9)


@pytest.fixture
def seen(valkey_url: str) -> Iterator[Any]:
    """A look from outside."""
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        yield client


def held_by_the_dead(opened_locks: Opener, url: str) -> Held:
    """The lock that another process has left behind. Its owner may still be there: it was only declared dead."""
    lock = opened_locks(url).acquire_for(REQUEST, DEAD)
    assert lock
    return lock


def test_a_lock_names_the_instance_and_its_claim(opened_locks: Opener, valkey_url: str, seen: Any) -> None:
    locks = opened_locks(valkey_url)
    with locks.acquire_for(REQUEST, DEAD):
        value = json.loads(seen.get(KEY))
        assert (value["worker"], value["claim"]) == ("instance-1", 7)
        assert 200_000 < seen.pttl(KEY) <= 300_000
    with locks.acquire_for(REQUEST, Owner("instance-1")):
        assert set(json.loads(seen.get(KEY))) == {"worker", "token", "at"}


def test_the_lock_of_an_owner_that_is_over_is_taken_over(
    opened_locks: Opener, valkey_url: str, seen: Any
) -> None:
    old = held_by_the_dead(opened_locks, valkey_url)
    seen.pexpire(KEY, 5000)
    with written() as lines:
        lock = opened_locks(valkey_url).acquire_for(REQUEST, OURS, lambda owner: owner == DEAD)
    assert lock
    assert json.loads(seen.get(KEY))["worker"] == "instance-2" and seen.pttl(KEY) > 200_000
    assert [(line["event"], line["job_id"], line["fields"]["holder"]) for line in lines.objects] == [
        ("lock.taken_over", REQUEST, "instance-1")
    ]
    assert not old.renew() and old.is_lost and not old.release(), "it changes nothing of ours"
    assert lock.renew() and lock.release() and not seen.exists(KEY)


def test_the_lock_of_an_owner_that_is_not_over_stays(
    opened_locks: Opener, valkey_url: str, seen: Any
) -> None:
    old = held_by_the_dead(opened_locks, valkey_url)
    before = seen.get(KEY)
    refused = opened_locks(valkey_url).acquire_for(REQUEST, OURS, lambda owner: False)
    assert not refused and refused.holder == "instance-1" and refused.since is not None
    assert not opened_locks(valkey_url).acquire_for(REQUEST, OURS)
    assert seen.get(KEY) == before and old.renew()


def test_a_lock_that_changes_hands_while_its_owner_is_judged_stays(
    opened_locks: Opener, valkey_url: str, seen: Any
) -> None:
    old, others = held_by_the_dead(opened_locks, valkey_url), opened_locks(valkey_url, worker="third")
    taken: list[Held] = []

    def is_over(owner: Owner) -> bool:
        assert old.release()
        taken.append(take(others, REQUEST))
        return True

    assert not opened_locks(valkey_url).acquire_for(REQUEST, OURS, is_over)
    assert json.loads(seen.get(KEY))["worker"] == "third" and taken[0].renew()


def test_two_processes_that_judge_at_once_do_not_both_take_it_over(
    opened_locks: Opener, valkey_url: str
) -> None:
    held_by_the_dead(opened_locks, valkey_url)
    first: list[object] = []

    def is_over(owner: Owner) -> bool:
        first.append(opened_locks(valkey_url).acquire_for(REQUEST, Owner("first", 8), lambda owner: True))
        return True

    assert not opened_locks(valkey_url).acquire_for(REQUEST, OURS, is_over) and first[0]


@pytest.mark.parametrize(
    "value", ["", "x", "[]", "{}", '{"worker": 7}', '{"worker": "w", "claim": "7"}', '{"worker": "w", "claim": true}']
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_nobodys_to_judge(
    opened_locks: Opener, valkey_url: str, seen: Any, value: str
) -> None:
    seen.set(KEY, value)
    assert not opened_locks(valkey_url).acquire_for(REQUEST, OURS, lambda owner: True)
    assert seen.get(KEY) == value


def test_a_lock_that_this_process_holds_is_not_judged(opened_locks: Opener, valkey_url: str) -> None:
    """A request that runs beside a worker of the same process."""
    locks = opened_locks(valkey_url)
    with locks.acquire_for(REQUEST, DEAD) as lock:
        assert not locks.acquire_for(REQUEST, OURS, lambda owner: True)
        assert lock and lock.renew()


def test_a_replacement_whose_reply_was_lost_is_found(opened_locks: Opener, own_valkey: OwnValkey) -> None:
    held_by_the_dead(opened_locks, own_valkey.url)
    with LostReply(own_valkey, b"EVAL") as proxy:
        lock = opened_locks(proxy.url, required=True).acquire_for(REQUEST, OURS, lambda owner: True)
        assert lock and proxy.lost == 1
        with own_valkey.client() as client:
            assert json.loads(client.get(KEY))["worker"] == "instance-2"


def test_without_redis_nothing_is_taken_over(opened_locks: Opener, own_valkey: OwnValkey) -> None:
    held_by_the_dead(opened_locks, own_valkey.url)

    def is_over(owner: Owner) -> bool:
        own_valkey.kill()
        return True

    with pytest.raises(LockUnavailableError):
        opened_locks(own_valkey.url, required=True).acquire_for(REQUEST, OURS, is_over)


def test_the_database_says_who_is_over(store: Store, clock: ManualClock) -> None:
    dead = store.join(lease=timedelta(seconds=10))
    one(store)
    claim_one(dead)
    clock.advance(11)
    living = store.join()
    owners = LockOwners(store.instances.is_dead)
    assert not owners.is_over(Owner(dead.id, 4), 5), "late, but not declared dead yet"
    store.recovery.recover()
    assert not owners.is_over(Owner(dead.id, 4), 5), "asked once"
    owners = LockOwners(store.instances.is_dead)
    assert owners.is_over(Owner(dead.id, 4), 5) and owners.is_over(Owner(dead.id), 5)
    assert not owners.is_over(Owner(dead.id, 6), 5), "the job was claimed again meanwhile"
    assert not owners.is_over(Owner(living.id, 4), 5) and not owners.is_over(Owner(living.id), 5)
    assert owners.is_over(Owner(new_id(), 4), 5), "it left, or died long ago, and its claim is older"
    assert not owners.is_over(Owner(new_id()), 5) and not owners.is_over(Owner("worker-1"), 5)
