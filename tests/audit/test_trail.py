"""The audit trail: append-only at the database, paged, and read by target."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from windlass.audit.record import AuditRecord
from windlass.audit.store import EVERYTHING
from windlass.errors import ConfigError, StoreError
from windlass.features import Store
from windlass.store.database import Transaction
from windlass.store.ids import LARGEST, SMALLEST, first_at, new_id


def _write(store: Store, **changes: Any) -> AuditRecord:
    record = AuditRecord(**({"actor": "anna", "act": "job.cancel", "target": "job", "name": "x"} | changes))
    store.db.transact(lambda tx: store.audit.write(tx, record))
    return record


def test_a_record_comes_back_as_it_was_written(store: Store) -> None:
    record = _write(
        store, reason="twice", before={"state": "queued"}, after=[1], subject="anna", tenant="acme"
    )
    (found,) = store.audit.list().records
    assert found.at == store.now()
    for name in ("id", "actor", "act", "target", "name", "reason", "before", "after", "subject", "tenant"):
        assert getattr(found, name) == getattr(record, name)


def test_records_are_read_by_page_and_by_target(store: Store) -> None:
    ids = [_write(store, name=f"job-{number % 2}").id for number in range(5)]
    first = store.audit.list(limit=2)
    assert [record.id for record in first.records] == [ids[4], ids[3]]
    rest = store.audit.list(limit=3, cursor=first.next_cursor)
    assert [record.id for record in rest.records] == [ids[2], ids[1], ids[0]] and rest.next_cursor is None
    assert [record.id for record in store.audit.list(target="job", name="job-1").records] == [ids[3], ids[1]]
    assert not store.audit.list(target="phase").records


SCOPES = {
    "all": {"sees": "all", "subject": None, "issuer": None, "tenant": None},
    "own": {"sees": "own", "subject": "bert", "issuer": None, "tenant": "acme"},
    "tenant": {"sees": "tenant", "subject": None, "issuer": None, "tenant": "acme"},
}


@pytest.fixture(scope="module")
def trail(shared_store: Store) -> tuple[Store, list[AuditRecord]]:
    """Actors, tenants and targets that are before and after the asked ones in their indexes."""
    return shared_store, [
        _write(shared_store, actor=who, subject=who, tenant=tenant, target=what)
        for who in ("anna", "bert", "carl")
        for tenant in (None, "acme", "zeta")
        for what in ("job", "instance", "phase", "schedule")
    ]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("since", [None, timedelta(seconds=-5), timedelta(seconds=5), timedelta(days=1)])
@pytest.mark.parametrize("target", [None, "job", "phase"])
@pytest.mark.parametrize("actor", [None, "anna", "bert", "carl"])
def test_every_index_gives_the_records_that_are_asked_for(
    trail: tuple[Store, list[AuditRecord]],
    actor: str | None,
    target: str | None,
    since: timedelta | None,
    scope: str,
) -> None:
    """In pages of two."""
    store, written = trail
    start = None if since is None else store.now() + since
    rights = SCOPES[scope]
    expected = [
        one.id
        for one in reversed(written)
        if (actor is None or one.actor == actor)
        and (target is None or one.target == target)
        and (start is None or start <= store.now())
        and (scope == "all" or one.tenant == "acme")
        and (scope != "own" or one.subject == "bert")
    ]
    found, cursor = [], None
    while True:
        page = store.audit.list(actor=actor, target=target, since=start, scope=rights, cursor=cursor, limit=2)
        found += [record.id for record in page.records]
        if (cursor := page.next_cursor) is None:
            break
    assert found == expected


def test_no_index_reads_more_records_than_a_page(trail: tuple[Store, list[AuditRecord]]) -> None:
    store, _ = trail
    common: dict[str, Any] = {
        "cursor": LARGEST,
        "actor": None,
        "since": None,
        "from": SMALLEST,
        **EVERYTHING,
        "limit": 1,
    }
    asked: dict[str, dict[str, Any]] = {
        "audit.of_others": {"target": "phase"},
        "audit.of_actor": {"target": None, "by": "anna"},
        "audit.of_tenant": {"target": None, "of": "acme"},
    }
    assert [len(store.db.read(verb, **common, **own)) for verb, own in asked.items()] == [1, 1, 1]


def test_records_of_the_last_hours_are_found_although_clocks_differ(store: Store) -> None:
    """The id of a record has the time of the machine that wrote it, which may be behind that of the database."""
    late = new_id_of(store.now() - timedelta(minutes=30))
    record = _write(store, id=late)
    assert [one.id for one in store.audit.list(since=store.now()).records] == [record.id]


def new_id_of(moment: datetime) -> str:
    return f"{first_at(moment.timestamp())[:14]}7{new_id()[15:]}"


def test_the_trail_of_one_target_has_pages_and_an_actor(store: Store) -> None:
    ids = [_write(store, actor="bert" if number == 1 else "anna").id for number in range(4)]
    _write(store, target="phase")
    first = store.audit.list(target="job", name="x", limit=2)
    rest = store.audit.list(target="job", name="x", limit=2, cursor=first.next_cursor)
    assert [record.id for record in (*first.records, *rest.records)] == ids[::-1]
    assert [record.id for record in store.audit.list(target="job", name="x", actor="bert").records] == [
        ids[1]
    ]
    asked = {
        "target": "job",
        "cursor": LARGEST,
        "actor": None,
        "since": None,
        "from": SMALLEST,
        **EVERYTHING,
        "limit": 1,
    }
    assert len(store.db.read("audit.list", **asked)) == len(store.db.read("audit.of", name="x", **asked)) == 1


def test_bad_pages_are_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="limit"):
        store.audit.list(limit=0)
    with pytest.raises(ConfigError, match="cursor"):
        store.audit.list(cursor="x")
    with pytest.raises(ConfigError, match="target"):
        store.audit.list(name="x")


@pytest.mark.parametrize("change", ["UPDATE {} SET actor = 'b'", "DELETE FROM {}"])
def test_the_database_refuses_to_change_the_trail(store: Store, change: str) -> None:
    _write(store)
    if store.db.dialect == "postgres":
        with (
            psycopg.connect(store.options["url"]) as connection,
            pytest.raises(psycopg.Error, match="append-only"),
        ):
            connection.execute(change.format("windlass.audit"))
    else:
        path = store.options["url"].removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.Error, match="append-only"):
            connection.execute(change.format("windlass_audit"))
    assert store.audit.list().records


def test_a_record_is_rolled_back_with_its_act(store: Store) -> None:
    def work(tx: Transaction) -> None:
        store.audit.write(tx, AuditRecord(actor="a", act="b", target="job", name="x"))
        raise StoreError("no")

    with pytest.raises(StoreError):
        store.db.transact(work)
    assert not store.audit.list().records
