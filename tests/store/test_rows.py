"""Claimed rows as leases: made quickly, and yet the same frozen values as any other."""

from __future__ import annotations

import pickle
import random
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.model import (
    Cancelled,
    Completed,
    Failed,
    Flag,
    JobError,
    Json,
    Lease,
    Outcome,
    Retried,
    Run,
    has_flag,
)
from windlass.store.ids import new_id
from windlass.store.jobs.outcome_rows import split_plain
from windlass.store.jobs.rows import in_order, run_json, to_lease, to_leases
from windlass.store.sqlite.database import SqliteDatabase

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = new_id()


class Times:
    """As much of a database as a row needs: its times are seconds."""

    def moment(self, value: int) -> datetime:
        return NOW + timedelta(seconds=value)


DB: Any = Times()


def row(**changed: Any) -> tuple[Any, ...]:
    columns = {
        "id": ID,
        "token": 7,
        "kind": "kind",
        "phase": "phase",
        "lane": 2,
        "generation": 3,
        "attempt": 4,
        "max_attempts": 5,
        "crashes": 6,
        "flags": 3,
        "args": '{"n":1}',
        "correlation": "corr",
        "created_at": NOW,
        "ready_at": NOW + timedelta(seconds=1),
        "claimed_at": NOW + timedelta(seconds=2),
    }
    return tuple((columns | changed).values())


LEASE = Lease(
    ID,
    7,
    "kind",
    "phase",
    7,
    3,
    4,
    5,
    6,
    Flag.SUSPECT | Flag.STARTED,
    Json('{"n":1}'),
    "corr",
    NOW,
    NOW + timedelta(seconds=1),
    NOW + timedelta(seconds=2),
)


def test_a_row_becomes_the_lease_that_its_constructor_would_make() -> None:
    lease = to_lease(DB, row())
    assert lease == LEASE and hash(lease) == hash(LEASE) and repr(lease) == repr(LEASE)
    assert type(lease) is Lease and type(lease.args_json) is Json and lease.args == {"n": 1}
    assert lease.is_suspect and not replace(lease, flags=Flag.STARTED).is_suspect
    assert pickle.loads(pickle.dumps(lease)) == LEASE
    with pytest.raises(FrozenInstanceError):
        lease.token = 8  # type: ignore[misc]


def test_a_job_without_a_correlation_is_its_own() -> None:
    assert to_lease(DB, row(correlation=None)).correlation_id == ID


def test_times_are_read_in_the_dialects_form() -> None:
    rows = [row(created_at=0, ready_at=1, claimed_at=2), row(created_at=0, ready_at=0, claimed_at=2)]
    assert to_leases(DB, rows) == [LEASE, replace(LEASE, ready_at=NOW)]
    assert to_leases(DB, []) == []


@pytest.mark.parametrize("flags", [0, 1, 63, 64, 200])
def test_flags_of_later_releases_are_carried(flags: int) -> None:
    lease = to_lease(DB, row(flags=flags))
    assert lease.flags == flags and isinstance(lease.flags, Flag)


def test_flags_are_tested_by_number() -> None:
    for flags in (Flag(0), *Flag, Flag.KEY | Flag.OUTPUT):
        for wanted in (*Flag, Flag.SUSPECT | Flag.OUTPUT):
            assert has_flag(flags, wanted) is bool(flags & wanted)


def test_rows_are_served_by_lane_then_age_then_id() -> None:
    ids = sorted(new_id() for _ in range(2))
    rows = [
        row(lane=4, ready_at=NOW),
        row(lane=2, ready_at=NOW + timedelta(1)),
        row(lane=2, ready_at=NOW, id=ids[1]),
        row(lane=2, ready_at=NOW, id=ids[0]),
    ]
    assert sorted(rows, key=in_order) == [rows[3], rows[2], rows[1], rows[0]]


def test_outcomes_are_divided_by_what_their_end_touches() -> None:
    aside = replace(LEASE, flags=Flag.KEY)
    boom = JobError(type="Boom", code="boom", message="it broke")
    outcomes: list[Outcome] = [
        Completed(LEASE),
        Completed(aside),
        Retried(LEASE, boom, timedelta(0)),
        Failed(LEASE, boom),
        Cancelled(LEASE),
    ]
    plain, rest = split_plain(outcomes)
    assert plain == [outcomes[0], *outcomes[3:]] and rest == outcomes[1:3]


def test_a_run_is_a_part_of_a_row_or_nothing() -> None:
    assert run_json(None) == ""
    assert run_json(Run(1, 2, 3)) == ',"p":1,"w":2,"r":3'
    assert run_json(Run(-1, 2**40, -9)) == ',"p":0,"w":2147483647,"r":0'


def test_times_of_sqlite_are_exact_to_the_microsecond(tmp_path: Path) -> None:
    """Those of our days are read in a short way; at its edges, before and after, it says the same."""
    chance = random.Random(7)
    edge = 2**32 * 1_000_000
    values = [0, 1, -1, edge - 1, edge, edge + 1, *(chance.randrange(-edge, 2 * edge) for _ in range(20_000))]
    values += [chance.randrange(edge - 10**9, edge) for _ in range(20_000)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    db = SqliteDatabase(f"sqlite:///{tmp_path}/a.db")
    try:
        wrong = [value for value in values if db.moment(value) != epoch + timedelta(microseconds=value)]
        assert not wrong
        assert [db.stamp(db.moment(value)) for value in values] == values
    finally:
        db.close()
