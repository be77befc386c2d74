"""Rows of rules: which of them are pruned, and which the database refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import execute, rows
from tests.conformance.life import BOOM, claim_one
from tests.conformance.rule_rows import EACH, PAIR, end, hits, job
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import DependencyPolicy, Retention
from windlass.store.ids import new_id

# ------------------------------------------------------------------------------------------------ pruning


def test_hits_stay_while_their_parent_is_anywhere(store: Store, clock: ManualClock) -> None:
    """Ended, queued again, or waiting for its retry."""
    store.rules.define([EACH])
    holder = store.join()
    parent = job(store, "a")
    end(holder, "a")
    for place in ("job_done", "job", "job_later"):
        if place == "job":
            store.jobs.retry(parent)
        if place == "job_later":
            holder.retry_later(claim_one(holder, "a"), BOOM, timedelta(hours=9))
        store.upkeep.prune(Retention())
        assert len(hits(store)) == 1, place


def test_hits_of_a_parent_that_is_gone_go_whoever_else_is_there(store: Store) -> None:
    store.rules.define([EACH, PAIR])
    holder = store.join()
    job(store, "a")
    gone = end(holder, "a")
    for k in (1, 2):
        job(store, "b", k)
    end(holder, "b")
    job(store, "a", 2)
    kept = end(holder, "a")
    job(store, "other"), job(store, "other", delay=timedelta(hours=1))
    execute(store, f"DELETE FROM {{p}}job_done WHERE id = '{gone}'")
    store.db.run("prune.hits")
    assert {row["parent"] for row in hits(store, rule="each")} == {kept}
    assert gone not in {row["parent"] for row in hits(store)}
    execute(store, "DELETE FROM {p}job_done")
    store.db.run("prune.hits")
    assert [(row["rule"], row["parent"]) for row in hits(store)] == [("pair", kept)], (
        "that one is waited with"
    )


@pytest.mark.parametrize(
    "why", ["it lives", "another one lives", "outdone", "it completed", "another round", "another group"]
)
def test_a_cancelled_group_goes_when_nobody_can_resume_it(store: Store, why: str) -> None:
    """Judged by the failed parent that counts in its round, wherever that one is, and by nobody else."""
    store.rules.define([PAIR])
    holder = store.join()
    if why == "another round":
        for kind in "ab":
            job(store, kind)
            end(holder, kind)
        execute(store, "UPDATE {p}rule_hit SET state = 'failed'")
    if why == "another group":
        job(store, "a", 2)
        end(holder, "a", fails=True)
    if why == "outdone":
        job(store, "a")
        end(holder, "a", fails=True)
    job(store, "b")
    end(holder, "b")
    job(store, "a")
    bad = end(holder, "a", fails=True)
    before = len(store.rules.open())
    if why not in ("it lives", "another one lives"):
        execute(store, f"DELETE FROM {{p}}job_done WHERE id = '{bad}'")
    if why == "another one lives":
        job(store, "other"), job(store, "other", delay=timedelta(hours=1))
        execute(store, f"DELETE FROM {{p}}job_done WHERE id = '{bad}'")
    store.db.run("prune.fan_ins")
    assert len(store.rules.open()) == before - (why != "it lives")


@pytest.mark.parametrize("place", ["job", "job_later"])
def test_a_cancelled_group_stays_while_what_failed_is_tried_again(store: Store, place: str) -> None:
    store.rules.define([PAIR])
    holder = store.join()
    job(store, "a")
    bad = end(holder, "a", fails=True)
    store.jobs.retry(bad)
    if place == "job_later":
        holder.retry_later(claim_one(holder, "a"), BOOM, timedelta(hours=9))
    store.db.run("prune.fan_ins")
    assert len(store.rules.open()) == 1


def test_groups_of_a_patient_rule_and_groups_that_are_merely_open_stay(store: Store) -> None:
    """And so do those that rest and have hits; one that rests without any goes. A rule that is gone waits for nobody."""
    patient = replace(PAIR, name="patient", policy=DependencyPolicy.WAIT)
    store.rules.define([PAIR, patient])
    holder = store.join()
    job(store, "a", 1)
    end(holder, "a")
    job(store, "a", 2)
    end(holder, "a", fails=True)
    for kind in "ab":
        job(store, kind, 3)
        end(holder, kind)
    for name, key in (("rests", "'[8]'"), ("gone", "'[9]'")):
        bad, opened = (1, 1) if name == "gone" else (0, "NULL")
        if store.db.dialect == "postgres" and opened == 1:
            opened = "now()"
        text = f"INSERT INTO {{p}}fan_in (rule, key, missing, bad, opened_at) VALUES ('{name}', {key}, 2, {bad}, {opened})"
        execute(store, text)
    execute(store, "DELETE FROM {p}job_done")
    store.db.run("prune.fan_ins")
    kept = {(row["rule"], row["key"]) for row in rows(store, "fan_in")}
    assert kept == {
        ("pair", "[1]"),
        ("pair", "[3]"),
        ("patient", "[1]"),
        ("patient", "[2]"),
        ("patient", "[3]"),
    }


def test_a_new_group_never_has_the_id_of_one_that_is_gone(store: Store) -> None:
    """Hits of earlier rounds outlive their group, and name it by its id."""
    store.rules.define([PAIR])
    holder = store.join()
    ids = []
    for _ in range(2):
        job(store, "a")
        end(holder, "a")
        ids += [row["id"] for row in rows(store, "fan_in")]
        store.db.run("fan_in.undo", rule="pair")
    assert len(ids) == 2 and ids[0] < ids[1]


# ------------------------------------------------------------------------------------------------ impossible rows

GOOD = {
    "rule": "INSERT INTO {p}rule (name, defined_at, changed_at, lane, max_attempts, inherit, policy, kind, phase, source, parents, key, args) "
    "VALUES ('r', {now}, {now}, {lane}, {max_attempts}, {true}, '{policy}', 'k', 'k', 's', {parents}, {key}, '{{{{}}}}')",
    "rule_kind": "INSERT INTO {p}rule_kind (kind, since, looks) VALUES ('k', {now}, {looks})",
    "fan_in": "INSERT INTO {p}fan_in (rule, key, round, missing, bad) VALUES ('r', 'k', {round}, {missing}, {bad})",
    "rule_hit": "INSERT INTO {p}rule_hit (parent, child, at, fan_in, round, generation, counts, asked, rule, kind, state, error) "
    "VALUES ('{id}', {child}, {now}, {fan_in}, {hit_round}, 1, {true}, {true}, 'r', 'k', '{state}', {error})",
}


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("rule", {"lane": -1}),
        ("rule", {"lane": 10}),
        ("rule", {"max_attempts": 0}),
        ("rule", {"policy": "perhaps"}),
        ("rule", {"parents": ["a", "b"]}),
        ("rule", {"key": ["args.k"]}),
        ("rule_kind", {"looks": -1}),
        ("rule_kind", {"looks": 3}),
        ("fan_in", {"round": 0}),
        ("fan_in", {"missing": 0, "bad": 0}),
        ("fan_in", {"bad": -1}),
        ("fan_in", {"missing": 2, "bad": 3}),
        ("rule_hit", {"state": "queued"}),
        ("rule_hit", {"fan_in": 1}),
        ("rule_hit", {"hit_round": 1}),
        ("rule_hit", {"error": "'x'", "child": "'00000000-0000-7000-8000-000000000000'"}),
    ],
)
def test_the_database_refuses_rows_that_make_no_sense(
    store: Store, table: str, change: dict[str, Any]
) -> None:
    is_sqlite = store.db.dialect == "sqlite"

    def listed(items: list[str]) -> str:
        quoted = ",".join(f'"{item}"' for item in items)
        return f"'[{quoted}]'" if is_sqlite else f"'{{{{{quoted}}}}}'::text[]"

    values: dict[str, Any] = {
        "now": 1 if is_sqlite else "now()",
        "true": 1 if is_sqlite else "TRUE",
        "id": new_id(),
        "lane": 4,
        "max_attempts": 3,
        "policy": "cancel",
        "parents": ["a"],
        "key": [],
        "looks": 0,
        "round": 1,
        "missing": 2,
        "bad": 0,
        "child": "NULL",
        "fan_in": "NULL",
        "hit_round": "NULL",
        "state": "failed",
        "error": "NULL",
    }
    texts = []
    for given in (values, values | change):
        full = given | {"parents": listed(given["parents"]), "key": listed(given["key"])}
        texts.append(GOOD[table].replace("{p}", "{{p}}").format(**full))
    execute(store, texts[0])
    execute(store, f"DELETE FROM {{p}}{table}")
    with pytest.raises(Exception, match=r"(?i)check|violates"):
        execute(store, texts[1])


def test_an_end_counts_once_and_one_of_a_kind_counts(store: Store) -> None:
    """Unique indexes stand behind what the lock does."""
    store.rules.define([PAIR])
    holder = store.join()
    job(store, "a")
    end(holder, "a")
    columns = "child, at, fan_in, round, generation, counts, asked, rule, kind, state"
    for parent in ("parent", f"'{new_id()}'"):
        cast = "::uuid" if store.db.dialect == "postgres" and parent != "parent" else ""
        with pytest.raises(Exception, match=r"(?i)unique"):
            execute(
                store,
                f"INSERT INTO {{p}}rule_hit (parent, {columns}) SELECT {parent}{cast}, {columns} FROM {{p}}rule_hit",
            )
