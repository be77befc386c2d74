"""Verbs of operations, requests, tokens, boards, logs and keys take what they are asked for and no more, tested where there is more to take."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from tests.conformance.bystanders import rows
from tests.conformance.life import enqueue, one
from tests.control.test_operations import failed
from windlass import App
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.job_logs.lines import LogLine, Pending
from windlass.model import Key, KeyScope, Retention
from windlass.model.principal import Principal
from windlass.operations.request import RequestState
from windlass.store.ids import LARGEST

# ------------------------------------------------------------------------------------------------------------- operations


def two_operations(app: App, store: Store) -> tuple[str, str]:
    failed(store, 1)
    first, second = (app.jobs.retry_many("state:failed", reason="x").id for _ in range(2))
    return first, second


def test_a_page_of_operations_is_read_and_no_more(app: App, store: Store) -> None:
    _, second = two_operations(app, store)
    everything = {"sees": "all", "subject": None, "issuer": None, "tenant": None}
    (row,) = store.db.read("operation.list", cursor=LARGEST, state=None, limit=1, **everything)
    assert str(row[0]) == second


def test_one_operation_is_locked_and_only_while_it_runs(app: App, store: Store) -> None:
    first, second = (app.operations.get(name) for name in two_operations(app, store))
    assert first.after == second.after
    locked = store.db.transact(lambda tx: tx.run("operation.lock", id=first.id, after=first.after))
    assert [str(row[0]) for row in locked] == [first.id]
    assert store.operations.stop(first.id)
    assert not store.db.transact(lambda tx: store.operations.lock(tx, first))
    assert store.db.transact(lambda tx: store.operations.lock(tx, second))


def test_operations_count_as_work_only_while_they_run(app: App, store: Store) -> None:
    assert not store.upkeep.agenda().has("operations")
    for name in two_operations(app, store):
        assert store.upkeep.agenda().has("operations")
        assert store.operations.stop(name)
    assert not store.upkeep.agenda().has("operations")


def test_of_all_jobs_those_of_a_page_are_locked(store: Store) -> None:
    ended = failed(store, 2)
    queued = enqueue(store, "welcome", 2)
    later = enqueue(store, "welcome", 2, delay=timedelta(hours=1))
    page = [ended[0], queued[0], later[0]]
    assert store.db.transact(lambda tx: store.operations.lock_jobs(tx, page)) == {
        ended[0]: "failed",
        queued[0]: "queued",
        later[0]: "scheduled",
    }


# --------------------------------------------------------------------------------------------------- requests to instances


def test_an_instance_reads_its_own_requests(store: Store) -> None:
    own, other = store.join(), store.join()
    wanted = [store.requests.put(own.id, "drain", actor="olga") for _ in range(2)]
    assert store.requests.asked(other.id) == [] and store.requests.of(other.id) == []
    assert [one.id for one in store.requests.asked(own.id)] == wanted
    assert [one.id for one in store.requests.of(own.id)] == wanted[::-1]
    assert [one.id for one in store.requests.of(own.id, limit=1)] == wanted[1:]


def test_the_agenda_has_the_unread_requests_of_its_instance(store: Store) -> None:
    own, other = store.join(), store.join()

    def has_requests(instance: str) -> bool:
        return store.upkeep.agenda(own=instance).has("requests")

    request = store.requests.put(own.id, "drain", actor="olga")
    assert has_requests(own.id) and not has_requests(other.id)
    store.requests.note(request, RequestState.ACCEPTED, "begun")
    assert not has_requests(own.id)


def test_what_became_of_a_request_stays(store: Store) -> None:
    request = store.requests.put(store.join().id, "drain", actor="olga")
    store.requests.note(request, RequestState.DONE, "drained")
    store.requests.note(request, RequestState.REFUSED, "too late")
    found = store.requests.get(request)
    assert found is not None and (found.state, found.outcome) == (RequestState.DONE, "drained")


# ----------------------------------------------------------------------------------------------------- tokens, boards, logs


def test_a_page_of_tokens_is_listed(app: App, store: Store) -> None:
    made = [app.tokens.create(name, ["view"]).token.id for name in ("one", "two")]
    assert [one.id for one in store.tokens.list(1)] == made[1:]


def test_a_name_is_that_of_the_token_in_use(app: App, store: Store) -> None:
    app.tokens.create("dashboard", ["view"])
    assert app.tokens.revoke("dashboard")
    assert store.tokens.find("dashboard") is None
    second = app.tokens.create("dashboard", ["view"]).token
    found = store.tokens.find("dashboard")
    assert found is not None and found.id == second.id


def test_the_use_of_one_token_is_noted_once_a_minute(app: App, store: Store, clock: ManualClock) -> None:
    used, other = (app.tokens.create(name, ["view"]).token for name in ("one", "two"))
    for _ in range(2):  # the second caller read the token before the first noted its use
        store.db.run("token.use", id=used.id)
        clock.advance(30)
    noted = {one.id: one.last_used_at for one in store.tokens.list()}
    assert noted == {used.id: store.now() - timedelta(seconds=60), other.id: None}


def test_the_board_of_the_instance_that_leaves_goes(store: Store) -> None:
    leaves, stays = store.join(), store.join()
    for holder in (leaves, stays):
        store.boards.put(holder.id, "{}")
    store.boards.drop(leaves.id)
    assert set(store.boards.read()) == {stays.id}


def test_the_log_of_a_pruned_job_goes_and_no_other(store: Store, clock: ManualClock) -> None:
    gone = failed(store, 1)[0]
    clock.advance(3600)
    kept = failed(store, 1)[0]
    line = LogLine(store.now(), "INFO", "app", "hello")
    store.logs.put({(job, 1): Pending(1, "welcome", lines=[line]) for job in (gone, kept)})
    store.upkeep.prune(Retention(failed=timedelta(minutes=30)))
    assert [len(store.logs.read(job)) for job in (gone, kept)] == [0, 1]


# ----------------------------------------------------------------------------------------------------- keys and principals


def held_keys(store: Store) -> set[str]:
    return {row["key"] for row in rows(store, "job_key")}


def test_keys_of_a_job_are_its_own_and_those_that_last(store: Store, clock: ManualClock) -> None:
    short = Key("a", KeyScope.IDEMPOTENT, timedelta(minutes=1))
    job, other = one(store, key=short), one(store, key=Key("b"))
    keys = lambda name: [tuple(row) for row in store.db.transact(lambda tx: tx.run("keys.of", id=name))]  # noqa: E731
    assert keys(job) == [("idempotent", "work:a")] and keys(other) == [("live", "work:b")]
    clock.advance(61)
    assert keys(job) == []


def test_keys_of_deleted_jobs_are_free_and_no_others(app: App, store: Store) -> None:
    ends = lambda name: Key(name, KeyScope.IDEMPOTENT, timedelta(days=1))  # noqa: E731
    gone, kept = failed(store, 1, key=ends("a"))[0], failed(store, 1, key=ends("b"))[0]
    assert held_keys(store) == {"welcome:a", "welcome:b"}
    app.jobs.delete(gone, "tidy up")
    assert held_keys(store) == {"welcome:b"} and store.jobs.get(kept).id == kept


def test_holders_of_keys_are_read_in_pages(store: Store) -> None:
    ids = [one(store, key=Key(name)) for name in "abcd"]
    holders: dict[str, Any] = {"keys": ["work:a", "work:b", "work:c"]}
    found = lambda **page: [str(row[0]) for row in store.db.read("key.jobs", **holders, **page)]  # noqa: E731
    assert found(before=LARGEST, limit=9) == ids[2::-1]
    assert found(before=LARGEST, limit=2) == [ids[2], ids[1]]
    assert found(before=ids[1], limit=9) == [ids[0]]


def test_jobs_of_people_are_read_in_pages(store: Store) -> None:
    anna = Principal("anna", tenant="acme")
    ids = [one(store, principal=anna) for _ in range(3)]
    assert [job for job, *_ in store.principals.jobs_of_subject("anna", LARGEST, 2)] == ids[:0:-1]
    assert [str(job) for job in store.principals.jobs_of_tenant("acme", LARGEST, 2)] == ids[:0:-1]


# ---------------------------------------------------------------------------------------------------- keys of requests


def test_responses_belong_to_their_keys(store: Store) -> None:
    """Of callers with the same key, and of a caller with two keys, each gets the response of its own first request."""
    from tests.idempotency.test_request_keys import submit
    from windlass.idempotency.store import RequestKey

    keys = [RequestKey(*names, "same body") for names in (("anna", "1"), ("anna", "2"), ("bert", "1"))]
    first = [submit(store, key).response for key in keys]
    assert len({*first}) == 3 and all(json.loads(text or "") for text in first)
    assert [submit(store, key).response for key in keys] == first
