"""A request with a key stores its jobs once, however often it is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from windlass.clock import ManualClock
from windlass.errors import KeyConflictError
from windlass.features import Store
from windlass.idempotency.store import LASTS, RequestKey
from windlass.model import Enqueued, Key, NewJob
from windlass.store.jobs.checked import check

ONE = RequestKey("anna", "k-1", "abc")


def ids(made: Sequence[Enqueued]) -> str:
    return json.dumps([one.id for one in made])


def submit(store: Store, key: RequestKey, job: NewJob | None = None):
    return store.request_keys.submit(key, check([job or NewJob(kind="welcome")]), ids)


def jobs(store: Store) -> int:
    return store.phases.counts()["welcome"].queued if store.phases.counts() else 0


def test_a_repeat_gets_the_response_of_the_first_request(store: Store) -> None:
    first, second = submit(store, ONE), submit(store, ONE)
    assert first.response == second.response == ids(first.made)
    assert not second.made
    assert store.jobs.get(json.loads(first.response or "")[0]).kind == "welcome"


def test_a_key_belongs_to_one_body_and_to_one_caller(store: Store) -> None:
    first = submit(store, ONE)
    assert submit(store, RequestKey("anna", "k-1", "other")).response is None
    other = submit(store, RequestKey("bert", "k-1", "other"))
    assert other.made and other.response != first.response


def test_a_refused_request_does_not_use_its_key(store: Store) -> None:
    store.enqueue([NewJob(kind="welcome", args={"n": 1}, key=Key("order-7"))])
    with pytest.raises(KeyConflictError):
        submit(store, ONE, NewJob(kind="welcome", args={"n": 2}, key=Key("order-7")))
    assert submit(store, ONE).made


def test_requests_at_once_store_one_job(opened: Callable[[], Store]) -> None:
    stores = [opened(), opened()]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: submit(stores[number % 2], ONE), range(32)))
    assert len({one.response for one in found}) == 1
    assert sum(len(one.made) for one in found) == 1


def test_a_key_can_be_used_again_after_a_day(store: Store, clock: ManualClock) -> None:
    first = submit(store, ONE)
    clock.advance(LASTS)
    assert submit(store, ONE).response == first.response
    clock.advance(timedelta(seconds=1))
    assert submit(store, RequestKey("anna", "k-1", "other")).made


def test_old_keys_are_removed(store: Store, clock: ManualClock) -> None:
    submit(store, ONE)
    clock.advance(LASTS + timedelta(seconds=1))
    store.request_keys.prune()
    assert not store.db.read("request_key.read", scope="anna", key="k-1")
    submit(store, ONE)
    store.request_keys.prune()
    assert store.db.read("request_key.read", scope="anna", key="k-1")
