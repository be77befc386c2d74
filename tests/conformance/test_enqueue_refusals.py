"""Jobs that cannot be stored are refused by the name of what is wrong, and nothing is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.life import enqueue, every_job, one
from windlass.errors import (
    ConfigError,
    DependencyCycleError,
    PayloadError,
    PayloadTooLargeError,
    UnknownParentError,
)
from windlass.features import Store
from windlass.model import After, Key, NewJob
from windlass.store.ids import new_id

pytestmark = pytest.mark.older_postgres


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"kind": ""}, "kind"),
        ({"kind": "@later"}, "kind"),
        ({"kind": "a b"}, "kind"),
        ({"kind": "x" * 201}, "kind"),
        ({"kind": None}, "kind"),
        ({"phase": "a\nb"}, "phase"),
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 40_000}, "max_attempts"),
        ({"delay": timedelta(seconds=-1)}, "delay"),
        ({"delay": timedelta(1), "run_at": datetime(2027, 1, 1, tzinfo=UTC)}, "delay"),
        ({"run_at": datetime(2027, 1, 1)}, "run_at"),  # noqa: DTZ001  the naive one is the point
        ({"id": "7"}, "id"),
        ({"id": "01900000-0000-7000-8000-00000000000A"}, "id"),
        ({"correlation_id": ""}, "correlation_id"),
        ({"correlation_id": "a\x00b"}, "correlation_id"),
        ({"correlation_id": "x" * 256}, "correlation_id"),
        ({"key": Key("")}, "key"),
        ({"after": [After("not-an-id")]}, "after"),
    ],
)
def test_bad_options_are_named_and_nothing_is_stored(shared_store: Store, options: dict, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shared_store.enqueue([NewJob(kind="good"), NewJob(**{"kind": "work", **options})])
    assert caught.value.key == key
    assert every_job(shared_store) == []


@pytest.mark.parametrize(
    ("args", "error", "field"),
    [
        ({"x": float("nan")}, PayloadError, "args.x"),
        ({"x": "a\x00b"}, PayloadError, "args.x"),
        ({"x": "\ud800"}, PayloadError, "args.x"),
        ({"x": [1, object()]}, PayloadError, "args.x[1]"),
        ({"x": "y" * 2_000_000}, PayloadTooLargeError, "args"),
    ],
)
def test_payloads_that_cannot_be_stored_are_refused(
    shared_store: Store, args: dict, error: type[PayloadError], field: str
) -> None:
    with pytest.raises(error) as caught:
        shared_store.enqueue([NewJob(kind="good"), NewJob(kind="work", args=args)])
    assert caught.value.field.startswith(field)
    assert every_job(shared_store) == []


def test_the_same_id_twice_in_one_call_is_refused(store: Store) -> None:
    job_id = new_id()
    with pytest.raises(ConfigError):
        store.enqueue([NewJob(kind="work", id=job_id), NewJob(kind="work", id=job_id)])


def test_an_unknown_parent_is_refused_and_named(store: Store) -> None:
    missing = new_id()
    with pytest.raises(UnknownParentError, match=missing):
        store.enqueue([NewJob(kind="good"), NewJob(kind="work", after=[After(missing)])])
    assert every_job(store) == []


def test_a_cycle_is_refused_and_drawn(store: Store) -> None:
    a, b, c = new_id(), new_id(), new_id()
    with pytest.raises(DependencyCycleError) as caught:
        store.enqueue(
            [
                NewJob(kind="work", id=a, after=[After(b)]),
                NewJob(kind="work", id=b, after=[After(c)]),
                NewJob(kind="work", id=c, after=[After(a)]),
            ]
        )
    assert caught.value.cycle[0] == caught.value.cycle[-1] and set(caught.value.cycle) == {a, b, c}
    with pytest.raises(DependencyCycleError):
        store.enqueue([NewJob(kind="work", id=a, after=[After(a)])])
    assert every_job(store) == []


def test_enqueue_refuses_nothing_it_can_store(store: Store) -> None:
    """Odd but valid values come back as they went in."""
    args = {"é": "ü\U0001f600", "n": 2**70, "f": 1e300, "deep": [[[[{"x": None}]]]], "": [], "neg": -5}
    job_id = one(store, args=args, correlation_id="ünïcode 7")
    job = store.jobs.get(job_id)
    assert job.args == args and job.correlation_id == "ünïcode 7"
    assert enqueue(store, "a:b/c.d-e_1")


@pytest.mark.parametrize(
    ("jobs", "key"),
    [
        (NewJob(kind="work"), "jobs"),
        (["work"], "jobs"),
        ([NewJob(kind="work", delay=5)], "delay"),  # type: ignore[arg-type]
        ([NewJob(kind="work", delay=timedelta(days=4_000_000))], "delay"),
        ([NewJob(kind="work", run_at="2027-01-01")], "run_at"),  # type: ignore[arg-type]
        ([NewJob(kind="work", run_at=datetime(9999, 12, 31, tzinfo=UTC))], "run_at"),
        ([NewJob(kind="work", key="k")], "key"),  # type: ignore[arg-type]
        ([NewJob(kind="work", key=Key("k", "bogus"))], "key scope"),  # type: ignore[arg-type]
        ([NewJob(kind="work", after=["01900000-0000-7000-8000-000000000000"])], "after"),  # type: ignore[list-item]
        ([NewJob(kind="work", after=[After("01900000-0000-7000-8000-000000000000", '"')])], "after policy"),  # type: ignore[arg-type]
        ([NewJob(kind="work", args=[1])], "args"),  # type: ignore[arg-type]
        ([NewJob(kind="work", args="hello")], "args"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_named_too(shared_store: Store, jobs: list, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shared_store.enqueue(jobs)
    assert caught.value.key == key and every_job(shared_store) == []
