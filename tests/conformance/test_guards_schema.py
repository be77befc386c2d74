"""Each CHECK of the schema refuses its own kind of impossible row, under its own name."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.conformance.bystanders import Crowd, gather, prefix, rows
from tests.conformance.life import claim_one, one
from windlass.errors import StoreError
from windlass.features import Store
from windlass.model import NewSchedule
from windlass.store.ids import SMALLEST, new_id

REFUSALS = (
    StoreError,
    sqlite3.IntegrityError,
    psycopg.IntegrityError,
)  # a user's own statement may raise the driver's
COUNTERS = [{"generation": 0}, {"attempt": -1}, {"crashes": -1}, {"max_attempts": 0}]
LANES = [{"lane": -1}, {"lane": 10}]
AT = object()  # a time, in the dialect's own form
NO_LEASE = object()
ODD = object()  # a time that is no whole minute

# Per table and constraint: changes of a good row that must be refused, each by itself.
REFUSED: dict[str, dict[str, list[dict[str, Any]]]] = {
    "job": {
        "job_lane": LANES,
        "job_held": [{"token": 9}, {"claimed_at": AT}],
        "job_cancel_needs_holder": [{"cancel_at": AT}],
        "job_counters": COUNTERS,
    },
    "job_later": {
        "job_later_lane": LANES,
        "job_later_pending": [
            {"reason": "why not"},
            {"reason": "why not", "pending": 1},
            {"pending": 1},
            {"reason": "waiting"},
            {"reason": "retry", "pending": 2},
        ],
        "job_later_gate": [{"gate": "k"}, {"gate": "k", "reason": "paced"}],
        "job_later_counters": COUNTERS,
    },
    "job_done": {
        "job_done_state": [{"state": "queued", "result": None}],
        "job_done_completed": [{"token": None}, {"claimed_at": None}],
        "job_done_failed": [{"state": "failed", "result": None}],
        "job_done_result": [{"state": "cancelled"}],
    },
    "instance": {"instance_lease": [{"lease": NO_LEASE}]},
    "output": {
        "output_next": [{"next_phase": "b", "name": ""}, {"next_max_attempts": 1}],
        "output_next_is_main": [{"next_phase": "b", "next_max_attempts": 1}],
    },
    "checkpoint": {"checkpoint_done": [{"done": -1}, {"done": 10}]},
    "attempt": {"attempt_outcome": [{"outcome": "x"}]},
    "job_key": {
        "job_key_scope": [{"scope": "x"}],
        "job_key_expiry": [
            {"scope": "live", "expires_at": AT},
            {"scope": "idempotent", "expires_at": None},
            {"scope": "throttle", "expires_at": None},
            {"scope": "debounce", "expires_at": None},
        ],
    },
    "job_dep": {
        "job_dep_policy": [{"policy": "x"}],
        "job_dep_state": [{"parent_state": "queued", "parent_ended_at": AT}],
        "job_dep_end": [{"parent_state": "failed"}, {"parent_ended_at": AT}],
    },
    "flow": {
        "flow_lim": [{"lim": 0}],
        "flow_rate": [{"rate": 0.0}, {"burst": 0}],
        "flow_burst": [{"rate": None}, {"burst": None}],
        "flow_age": [{"age": 0.0}],
    },
    "gate": {"gate_admitted": [{"admitted": -1}]},
    "job_limit": {
        "job_limit_some": [{"lim": None, "rate": None, "burst": None}],
        "job_limit_lim": [{"lim": 0}],
        "job_limit_rate": [{"rate": 0.0}, {"burst": 0}],
        "job_limit_burst": [{"rate": None}, {"burst": None}],
        "job_limit_place": [{"lim": None, "admitted": True}],
        "job_limit_gone": [{"gone": True}],
    },
    "rollup": {
        "rollup_minute": [{"minute": ODD}],
        "rollup_counts": [{name: -1} for name in ("completed", "failed", "retried", "cancelled", "released")],
        "rollup_sums": [{"wait_ms_sum": -1}, {"run_ms_sum": -1}],
    },
    "schedule": {
        "schedule_lane": LANES,
        "schedule_numbers": [
            {"generation": 0},
            {"max_attempts": 0},
            {"cap": 0},
            {"jitter": -0.5},
            {"skipped": -1},
        ],
        "schedule_missed": [{"missed": "twice"}],
        "schedule_pause": [{"paused_at": AT, "next_at": None}, {"pause_reason": "why"}],
        "schedule_last": [{"last_at": AT}, {"last_job": new_id()}],
        "schedule_next": [
            {"next_at": None},
            {"gone_at": AT},
            {"paused_at": AT, "pause_reason": "why"},
        ],
    },
    "tick": {"tick_covers": [{"covers": 0}]},
    "settling": {"settling_state": [{"state": "queued"}]},
    "principal": {"principal_sealed": [{"token": "x"}, {"key_id": "k"}]},
}
ACCEPTED: dict[str, list[dict[str, Any]]] = {
    "job": [{"token": 9, "claimed_at": AT, "cancel_at": AT}, {"lane": 0}, {"lane": 9}],
    "job_later": [
        {"reason": "unlinked", "pending": 1},
        {"reason": "inbox"},
        {"reason": "limited"},
        {"reason": "limited", "gate": "k"},
        {"reason": "paced"},
    ],
    "job_key": [{"scope": "throttle", "expires_at": AT}, {"scope": "debounce", "expires_at": AT}],
    "job_limit": [{"admitted": True}, {"admitted": True, "gone": True}, {"lim": None}],
    "flow": [{"lim": None}, {"rate": None, "burst": None}, {"age": None}],
    "job_done": [
        {"result": None},
        {"state": "cancelled", "result": None, "token": None, "claimed_at": None},
        {"state": "failed", "result": None, "error": "{}"},
    ],
    "output": [{"name": "", "next_phase": "b", "next_max_attempts": 1}, {"name": ""}],
    "checkpoint": [{"done": 3, "total": None}],
    "principal": [{"token": "x", "key_id": "k"}],
    "job_dep": [{"parent_state": "failed", "parent_ended_at": AT}],
    "schedule": [
        {"gone_at": AT, "next_at": None},
        {"paused_at": AT, "pause_reason": "why", "next_at": None},
        {"last_at": AT, "last_job": new_id()},
    ],
}


@pytest.fixture
def good(store: Store, opened: Callable[[], Store]) -> Callable[[str], dict[str, Any]]:
    """A good row of any table, under a new id, ready to be spoilt."""
    crowd: Crowd = gather(store, opened())
    holder = store.join()
    one(store, "s")
    holder.complete(claim_one(holder, "s"), "result")
    store.schedules.put(NewSchedule(name="s", kind="s", expression="@daily"))
    tick = {
        "schedule": "s",
        "at": store.db.stamp(store.now()),
        "fired_at": store.db.stamp(store.now()),
        "job": new_id(),
    }
    store.db.run("fire.ticks", ticks=json.dumps([{**tick, "covers": 1}]))
    left = {"id": new_id(), "after": SMALLEST, "state": "failed"}
    store.db.run("settle.leave", ended=json.dumps([left]))
    wanted = {
        "job": f"id = '{crowd.ids['queued']}'",
        "job_later": f"id = '{crowd.ids['scheduled']}'",
        "job_done": "kind = 's'",
        "output": "name <> ''",
        "job_key": "scope = 'live'",
        "job_dep": "parent_state IS NULL",
        "flow": "phase = 'crowd.both'",
        "job_limit": "rate IS NOT NULL AND NOT admitted",
    }

    def one_of(table: str) -> dict[str, Any]:
        row = rows(store, table, wanted.get(table, "TRUE"))[0]
        key = next(
            name for name in ("id", "schedule", "job", "parent", "instance", "name", "phase") if name in row
        )
        return {**row, key: new_id(), **({"key": new_id()} if table == "job_key" else {})}

    return one_of


def test_each_constraint_refuses_by_itself(store: Store, good: Callable[[str], dict[str, Any]]) -> None:
    for table, constraints in REFUSED.items():
        insert(store, table, good(table))
        for changes in ACCEPTED.get(table, []):
            insert(store, table, {**good(table), **changes})
        for constraint, spoilt in constraints.items():
            for changes in spoilt:
                with pytest.raises(REFUSALS) as caught:
                    insert(store, table, {**good(table), **changes})
                assert constraint in words(caught.value), (table, changes)


def test_a_job_cannot_wait_for_itself(store: Store, good: Callable[[str], dict[str, Any]]) -> None:
    row = good("job_dep")
    with pytest.raises(REFUSALS) as caught:
        insert(store, "job_dep", {**row, "child": row["parent"]})
    assert "job_dep_self" in words(caught.value)


def test_a_claim_has_one_range_for_each_lane(store: Store, good: Callable[[str], dict[str, Any]]) -> None:
    """On SQLite a claim row has no ranges: its jobs are found by their token."""
    if store.db.dialect == "sqlite":
        assert {"lanes", "los", "his"}.isdisjoint(rows(store, "claim")[0])
        return
    row = rows(store, "claim")[0]
    for name in ("lanes", "los", "his"):
        with pytest.raises(REFUSALS) as caught:
            insert(store, "claim", {**row, "token": -1, name: row[name] * 2})
        assert "claim_ranges" in words(caught.value)
    insert(store, "claim", {**row, "token": -1})


@pytest.mark.parametrize("column", ["state", "result", "finished_at"])
def test_history_does_not_change(store: Store, good: Callable[[str], dict[str, Any]], column: str) -> None:
    """Not even to a value that every CHECK would accept."""
    ended = good("job_done")
    insert(store, "job_done", ended)
    with pytest.raises(REFUSALS, match="only by retry"), store.db.effect(5) as tx:
        tx.connection.execute(f"UPDATE {prefix(store)}job_done SET {column} = {column} WHERE kind = 's'")


def words(error: BaseException) -> str:
    return f"{error} {error.__cause__}"


def insert(store: Store, table: str, row: dict[str, Any]) -> None:
    is_sqlite = store.db.dialect == "sqlite"
    stand_ins = {
        id(AT): store.db.stamp(store.now()),
        id(NO_LEASE): 0 if is_sqlite else timedelta(0),
        id(ODD): store.db.stamp(store.now().replace(second=7)),
    }
    values = [stand_ins.get(id(value), value) for value in row.values()]
    marks = ", ".join(["?" if is_sqlite else "%s"] * len(values))
    with store.db.effect(5) as tx:
        tx.connection.execute(
            f"INSERT INTO {prefix(store)}{table} ({', '.join(row)}) VALUES ({marks})", values
        )
