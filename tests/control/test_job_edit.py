"""Edits of jobs that have not begun: what they change, what they derive anew, what they refuse and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.life import BOOM, assert_counts_are_true, claim_one, one, state
from tests.control.conftest import ANNA, BERT, OPS
from windlass import App, ConfigError
from windlass.errors import ActRefusedError, EditConflictError, JobNotFoundError, PayloadError
from windlass.features import Store
from windlass.model import (
    After,
    Debounce,
    Json,
    Key,
    KeyScope,
    NewJob,
    Retried,
    State,
    Throttle,
)
from windlass.model.principal import Principal
from windlass.model.rule import Rule

HOUR = timedelta(hours=1)
TARTU = Principal("anna", tenant="acme", attributes={"county": ["Harju", "Tartu"]})


@pytest.fixture
def edit_app(app: App) -> App:
    @app.job(name="limited", limit=1, limit_key="args.customer")
    def limited(customer: str, number: int = 0) -> None: ...

    @app.job(name="dated")
    def dated(when: timedelta, data: bytes = b"") -> None: ...

    return app


def edit(app: App, job_id: str, **changes: Any) -> Any:
    return app.jobs.edit(job_id, version=app.jobs.get(job_id).version, **changes)


def test_arguments_are_merged_validated_and_recorded(app: App, store: Store) -> None:
    job_id = one(store, "welcome", args={"user": "anna", "number": 1})
    version = store.jobs.get(job_id).version
    job = edit(app, job_id, arguments={"number": "7"}, reason="a typing mistake")
    assert job.args == {"user": "anna", "number": 7}, "as the annotation says, the others as they were"
    assert job.version != version and job.version == store.jobs.get(job_id).version
    (record,) = app.audit.list().records
    assert (record.act, record.name, record.reason) == ("job.edit", job_id, "a typing mistake")
    assert record.before == {"priority": 5, "arguments": {"number": 1}, "version": version}
    assert record.after == {"priority": 5, "arguments": {"number": 7}, "version": job.version}


def test_rich_types_come_back_as_they_were(edit_app: App, store: Store) -> None:
    kind = edit_app.parts.registry.kind("dated")
    assert kind is not None
    signature = kind.first.signature
    job_id = one(store, "dated", args=Json(signature.encode_args(when=timedelta(seconds=3), data=b"\\xff")))
    edit(edit_app, job_id, arguments={"when": timedelta(seconds=5)})
    decoded = signature.decode_args(store.jobs.get(job_id).args_json)
    assert decoded == {"when": timedelta(seconds=5), "data": b"\\xff"}


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"arguments": {"number": "x"}}, PayloadError, "number"),
        ({"arguments": {"nmber": 1}}, PayloadError, "nmber.*did you mean number"),
        ({"priority": 10}, ConfigError, "0 to 9"),
        ({"priority": True}, ConfigError, "0 to 9"),
        ({"arguments": [1]}, ConfigError, "mapping"),
        ({}, ConfigError, "arguments to change"),
        ({"priority": 1, "version": ""}, ConfigError, "version"),
    ],
)
def test_bad_changes_are_refused(
    app: App, store: Store, changes: dict[str, Any], error: type[Exception], match: str
) -> None:
    job_id = one(store, "welcome")
    before = store.jobs.get(job_id)
    with pytest.raises(error, match=match):
        app.jobs.edit(job_id, **{"version": before.version, **changes})
    assert store.jobs.get(job_id) == before and not app.audit.list().records


def test_a_stale_version_is_a_conflict_with_both_versions(app: App, store: Store) -> None:
    job_id = one(store, "welcome")
    read = store.jobs.get(job_id)
    edited = app.jobs.edit(job_id, version=read.version, arguments={"user": "bert"})
    for changes in ({"arguments": {"user": "cara"}}, {"priority": 9}):
        with pytest.raises(EditConflictError, match=f"{read.version}.*{edited.version}") as refused:
            app.jobs.edit(job_id, version=read.version, **changes)
        assert (refused.value.given, refused.value.stored) == (read.version, edited.version)
    assert store.jobs.get(job_id).args == {"user": "bert"}
    assert len(app.audit.list().records) == 1


def test_the_same_values_change_and_record_nothing(app: App, store: Store) -> None:
    job_id = one(store, "welcome", args={"user": "anna"})
    before = app.jobs.get(job_id)
    assert edit(app, job_id, arguments={"user": "anna"}, priority=5) == before
    assert not app.audit.list().records


def test_a_priority_changes_the_order_of_the_queue(app: App, store: Store) -> None:
    first, second = one(store, "welcome"), one(store, "welcome")
    holder = store.join()
    edit(app, second, priority=9)
    assert [lease.id for lease in holder.claim("welcome", 2)] == [second, first]
    assert_counts_are_true(store)


def test_instances_forget_their_low_water_marks_when_a_priority_changes(
    postgres_dsn: str, stores: Callable[[str], Store], heard: Callable[[], list[str]]
) -> None:
    store = stores(postgres_dsn)
    job_id = one(store, "welcome")
    App(store=store).jobs.edit(job_id, version=store.jobs.get(job_id).version, priority=2)
    assert heard() == ["@nudge welcome"]


def test_jobs_that_are_not_in_their_queue_are_edited(app: App, store: Store) -> None:
    parent = one(store, "welcome")
    scheduled, waiting = one(store, "report", delay=HOUR), one(store, "report", after=[After(parent)])
    for job_id in (scheduled, waiting):
        before = state(store, job_id)
        job = edit(app, job_id, arguments={"county": "Tartu"}, priority=1)
        assert (job.args, job.priority, job.state) == ({"county": "Tartu"}, 1, before)


def test_jobs_that_have_begun_are_not_edited(app: App, store: Store) -> None:
    held, ended, retrying = (one(store, "welcome") for _ in range(3))
    holder = store.join()
    leases = {lease.id: lease for lease in holder.claim("welcome", 3)}
    holder.fail(leases[ended], BOOM)
    holder.record([Retried(leases[retrying], BOOM, HOUR)])
    for job_id, why in (
        (held, "processing: it has begun"),
        (ended, "failed: it has ended"),
        (retrying, "begun"),
    ):
        for changes in ({"arguments": {"user": "x"}}, {"priority": 1}):
            with pytest.raises(ActRefusedError, match=why):
                edit(app, job_id, **changes)
    assert not app.audit.list().records


def test_a_retried_job_is_edited_unless_it_goes_on_from_a_position(app: App, store: Store) -> None:
    plain, with_position = one(store, "welcome"), one(store, "report")
    holder = store.join()
    holder.fail(claim_one(holder, "welcome"), BOOM)
    lease = claim_one(holder, "report")
    holder.checkpoint(lease, done=3, total=10, position=3)
    holder.fail(lease, BOOM)
    holder.step()
    app.jobs.retry(plain)
    app.jobs.retry(with_position)
    assert edit(app, plain, arguments={"user": "bert"}).args == {"user": "bert"}
    with pytest.raises(ActRefusedError, match=r"saved a position.*submit a new job"):
        edit(app, with_position, arguments={"county": "Tartu"})
    assert edit(app, with_position, priority=8).priority == 8


def test_a_kind_of_another_application_keeps_its_arguments(app: App, store: Store) -> None:
    job_id = one(store, "elsewhere", args={"a": 1})
    with pytest.raises(ActRefusedError, match="kind elsewhere is not defined in this application"):
        edit(app, job_id, arguments={"a": 2})
    assert edit(app, job_id, priority=1).priority == 1


# ---------------------------------------------------------------------- what comes from the arguments


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"key": Key("order-7")}, "unique key 'order-7'.*cancel the job"),
        ({"key": Key("order-7", scope=KeyScope.IDEMPOTENT)}, "idempotent key 'order-7'"),
        ({"throttle": Throttle("anna", 60)}, "throttle key 'anna'"),
        ({"debounce": Debounce("anna", wait=60)}, "debounce key 'anna'.*submit the job again"),
    ],
)
def test_arguments_of_a_job_with_a_key_stay(
    app: App, store: Store, options: dict[str, Any], why: str
) -> None:
    job_id = one(store, "welcome", args={"user": "anna"}, **options)
    with pytest.raises(ActRefusedError, match=why):
        edit(app, job_id, arguments={"user": "bert"})
    assert store.jobs.get(job_id).args == {"user": "anna"} and not app.audit.list().records
    assert edit(app, job_id, priority=9).priority == 9


def limit_keys(store: Store, job_id: str) -> list[str]:
    return [row[1] for row in store.db.read("limits.keys", id=job_id)]


def test_the_key_of_a_limit_is_derived_anew(edit_app: App, store: Store) -> None:
    kind = edit_app.parts.registry.kind("limited")
    assert kind is not None
    limits = kind.limits('{"customer":"a"}')
    job_id = one(store, "limited", args={"customer": "a"}, limits=limits, delay=HOUR)
    edit(edit_app, job_id, arguments={"customer": "b"})
    assert limit_keys(store, job_id) == ["b"]
    given = one(
        store, "limited", args={"customer": "a"}, limits=kind.limits('{"customer":"a"}', "vip"), delay=HOUR
    )
    edit(edit_app, given, arguments={"customer": "b"})
    assert limit_keys(store, given) == ["vip"], "the submitter's own key is not the arguments'"


def test_a_job_at_a_gate_keeps_the_key_of_its_limit(edit_app: App, store: Store) -> None:
    kind = edit_app.parts.registry.kind("limited")
    assert kind is not None
    limits = kind.limits('{"customer":"a"}')
    ids = [one(store, "limited", args={"customer": "a"}, limits=limits) for _ in range(2)]
    with pytest.raises(ActRefusedError, match=r"key 'a'.*key 'b'.*cancel"):
        edit(edit_app, ids[0], arguments={"customer": "b"})
    store.limits.let_in()
    for job_id in ids:  # one has the place, one waits for it
        with pytest.raises(ActRefusedError, match=r"key 'a'.*key 'b'"):
            edit(edit_app, job_id, arguments={"customer": "b"})
        assert edit(edit_app, job_id, arguments={"number": 3}).args["number"] == 3
        assert limit_keys(store, job_id) == ["a"]
    assert not store.limits.check()


def test_a_fan_in_gets_the_key_of_the_new_arguments(app: App, store: Store) -> None:
    rule = Rule(
        name="both",
        parents=("welcome", "report"),
        create="child",
        phase="child",
        key=("args.county",),
    )
    store.rules.define([rule])
    job_id = one(store, "report", args={"county": "Harju"})
    edit(app, job_id, arguments={"county": "Tartu"})
    holder = store.join()
    holder.complete(claim_one(holder, "report"))
    holder.step()
    assert [fan_in.key for fan_in in store.rules.open()] == [["Tartu"]]
    app.jobs.retry(job_id)
    with pytest.raises(ActRefusedError, match="fan-in of rule both"):
        edit(app, job_id, arguments={"county": "Harju"})


def test_values_stay_within_what_the_principal_is_allowed(app: App, store: Store) -> None:
    job_id = one(store, "report", args={"county": "Harju"}, principal=TARTU)
    for who in (app, app.acting_as(TARTU), app.acting_as(OPS)):
        version = store.jobs.get(job_id).version
        with pytest.raises(ActRefusedError, match="runs for anna, whose attribute 'county'"):
            who.jobs.edit(job_id, version=version, arguments={"county": "Võru"})
    assert not app.audit.list().records
    assert edit(app, job_id, arguments={"county": "Tartu"}).args == {"county": "Tartu"}
    captured = store.principals.get(job_id)
    assert captured is not None and captured.principal == TARTU, "whose rights the job has stays as it was"


# ---------------------------------------------------------------------- who may


def test_jobs_of_others_are_not_edited(app: App, store: Store) -> None:
    job_id = one(store, "welcome", principal=ANNA)
    before = store.jobs.get(job_id)
    with pytest.raises(JobNotFoundError):
        app.acting_as(BERT).jobs.edit(job_id, version=before.version, priority=1)
    assert store.jobs.get(job_id) == before and not app.audit.list().records
    assert app.acting_as(ANNA).jobs.edit(job_id, version=before.version, priority=1).priority == 1


def test_edit_works_from_coroutines(app: App, store: Store) -> None:
    job_id = store.enqueue([NewJob(kind="welcome")])[0].id
    version = store.jobs.get(job_id).version
    job = asyncio.run(app.jobs.edit_async(job_id, version=version, priority=7))
    assert job.priority == 7 and job.state is State.QUEUED
