"""Guards of the rules' SQL that only show beside others: rows of another rule, key, round, kind, generation or job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.bystanders import prefix, rows
from tests.conformance.life import BOOM, claim_one, enqueue, every_job, one
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Completed, DependencyPolicy, Flag, Retention
from windlass.model.rule import Rule
from windlass.rules import store as store_rules
from windlass.store.ids import LARGEST, SMALLEST, new_id
from windlass.store.jobs.holder import Holder

PAIR = Rule(
    name="pair",
    parents=("a", "b"),
    create="child",
    phase="child",
    key=("args.k",),
    args={"n": ("a", "args.n")},
)
EACH = Rule(name="each", parents=("a",), create="child", phase="child", args={}, policy=DependencyPolicy.WAIT)


def job(store: Store, kind: str, k: Any = 1, n: int = 0, **options: Any) -> str:
    return one(store, kind, args={"k": k, "n": n}, **options)


def end(holder: Holder, phase: str, *, fails: bool = False) -> str:
    lease = claim_one(holder, phase)
    if fails:
        holder.fail(lease, BOOM)
    else:
        holder.complete(lease)
    return lease.id


def hits(store: Store, **only: Any) -> list[dict[str, Any]]:
    found = rows(store, "rule_hit")
    return [row for row in found if all(row[name] == value for name, value in only.items())]


def execute(store: Store, text: str) -> None:
    with store.db.effect(5) as tx:
        tx.connection.execute(text.format(p=prefix(store)))


# ------------------------------------------------------------------------------------------------ lists


def test_lists_show_one_rule_and_no_more_than_asked_for(store: Store) -> None:
    other = replace(PAIR, name="other")
    store.rules.define([PAIR, other, EACH, replace(EACH, name="each2")])
    holder = store.join()
    for k in (1, 2, 3):
        job(store, "a", k)
        end(holder, "a", fails=k == 3)
    assert [len(store.rules.open(name)) for name in ("pair", "other", "each", "each2")] == [3, 3, 1, 1]
    assert len(store.rules.open()) == 8 and len(store.rules.open(limit=1)) == 1
    assert len(store.db.read("fan_in.list", rule=None, limit=1)) == 1
    assert len(store.db.read("hit.left", rule=None, limit=1)) == 1
    assert [item.rule.name for item in store.rules.list()] == ["each", "each2", "other", "pair"]
    assert store.rules.get("other").rule == other


def test_a_list_shows_what_counts_in_the_round_that_is_open(store: Store) -> None:
    """Not a fan-in that rests, an earlier round, or an end that another one of its kind outdid."""
    store.rules.define([PAIR])
    holder = store.join()
    for kind in "ab":
        job(store, kind)
        end(holder, kind)
    assert store.rules.open() == []
    for _ in range(2):
        job(store, "a")
    end(holder, "a")
    last = end(holder, "a")
    (seen,) = store.rules.open()
    assert [part.job_id for part in seen.complete] == [last] and seen.round == 2


def test_what_is_left_of_a_rule_with_one_parent(store: Store) -> None:
    """Not what has made its child, nor the ends that meet others."""
    store.rules.define([EACH, PAIR])
    holder = store.join()
    job(store, "a")
    end(holder, "a")
    job(store, "a")
    parent = end(holder, "a", fails=True)
    left = store.db.read("hit.left", rule=None, limit=10)
    assert [(row[0], row[4]) for row in left] == [("each", parent)]
    assert store.dependencies.of(parent) == []


# ------------------------------------------------------------------------------------------------ definitions


def test_a_rule_vanishes_and_goes_alone(store: Store) -> None:
    two = replace(EACH, name="two", parents=("z",), source="m")
    store.rules.define([EACH, two, PAIR])
    store.rules.define([], ["m"])
    assert {item.rule.name: item.gone_at is not None for item in store.rules.list()} == {
        "each": False,
        "two": True,
        "pair": False,
    }
    store.rules.remove("two")
    assert [item.rule.name for item in store.rules.list()] == ["each", "pair"]
    assert {row[0] for row in store.db.read("rule.kinds")} == {"a", "b"}


def test_a_change_forgets_what_is_its_own_alone(store: Store) -> None:
    """Open groups and left ends of that rule, and not the children it has made."""
    store.rules.define([PAIR, EACH, replace(PAIR, name="other"), replace(EACH, name="each2")])
    holder = store.join()
    for k in (1, 2):
        job(store, "a", k)
        end(holder, "a", fails=k == 2)
    job(store, "b")
    end(holder, "b")
    before = {row["rule"]: 0 for row in hits(store)}
    for row in hits(store):
        before[row["rule"]] += 1
    store.db.run("hit.forget", rule="each")
    assert len(hits(store, rule="each")) == before["each"] - 1 and hits(store, rule="each")[0]["child"]
    answer = store.db.transact(lambda tx: tx.run("fan_in.undo", rule="pair"))
    assert len(answer) == 1
    assert len(hits(store, rule="pair")) == 2 and all(row["child"] for row in hits(store, rule="pair"))
    for name in ("other", "each2"):
        assert len(hits(store, rule=name)) == before[name]
    assert sorted(row["rule"] for row in rows(store, "fan_in")) == ["other", "other", "pair"]


def test_a_group_is_forgotten_with_the_hits_of_its_round(store: Store) -> None:
    """The hits of rounds before stay, and so do those of groups with another key."""
    store.rules.define([PAIR, replace(PAIR, name="other")])
    holder = store.join()
    for kind in "ab":
        job(store, kind)
        end(holder, kind)
    job(store, "a")
    parent = end(holder, "a")
    assert [row[0] for row in store.db.transact(lambda tx: tx.run("fan_in.undo", rule="pair"))] == [parent]
    assert len(hits(store, rule="pair", round=1)) == 2 and len(hits(store, rule="other")) == 3


# ------------------------------------------------------------------------------------------------ ends that count


def test_a_rule_that_becomes_a_fan_in_counts_jobs_it_knew_before(store: Store) -> None:
    """As one parent's child they belonged to no round."""
    single = replace(EACH, name="pair")
    store.rules.define([single])
    parent = job(store, "a")
    holder = store.join()
    end(holder, "a")
    store.rules.define([PAIR])
    store.rules.catch_up()
    store.jobs.retry(parent)
    end(holder, "a")
    assert [part.job_id for part in store.rules.open()[0].complete] == [parent]
    job(store, "b")
    end(holder, "b")
    assert len(every_job(store, kind="child")) == 2


def test_an_end_outdoes_its_own_kind_in_its_own_group(store: Store) -> None:
    """Beside another rule, another key, another generation and another job, all of which keep what counts."""
    store.rules.define([PAIR, replace(PAIR, name="other")])
    holder = store.join()
    elsewhere = job(store, "a", 2)
    end(holder, "a")
    first = job(store, "a", 1)
    end(holder, "a")
    store.jobs.retry(first)
    end(holder, "a")
    for rule in ("pair", "other"):
        counting = {(row["parent"], row["generation"]) for row in hits(store, rule=rule) if row["counts"]}
        assert counting == {(elsewhere, 1), (first, 2)}
    second = job(store, "a", 1)
    end(holder, "a")
    for rule in ("pair", "other"):
        counting = {(row["parent"], row["generation"]) for row in hits(store, rule=rule) if row["counts"]}
        assert counting == {(elsewhere, 1), (second, 1)}
    assert [(row["missing"], row["bad"]) for row in rows(store, "fan_in")] == [(1, 0)] * 4
    verdict = f'[{{"parent":"{second}","rule":"pair","generation":2}},{{"parent":"{first}","rule":"pair","generation":1}}]'
    store.db.run("fan_in.supersede", hits=verdict)
    assert sum(bool(row["counts"]) for row in hits(store)) == 4


def test_a_group_is_counted_and_closed_by_itself(store: Store) -> None:
    """Beside the same rule's other groups and this group's other rounds."""
    store.rules.define([PAIR])
    holder = store.join()
    for k, kinds in ((1, "ab"), (2, "a"), (1, "a"), (3, "b")):
        for kind in kinds:
            job(store, kind, k, n=10 * k)
            end(holder, kind)
    standing = {
        row["key"]: (row["round"], row["missing"], row["opened_at"] is None) for row in rows(store, "fan_in")
    }
    assert standing == {"[1]": (2, 1, False), "[2]": (1, 1, False), "[3]": (1, 1, False)}
    made = {(row["parent"], row["child"] is not None, row["data"] is None) for row in hits(store)}
    assert len(made) == 5 and sum(has_child for _, has_child, _ in made) == 2
    assert all(has_child == has_no_data for _, has_child, has_no_data in made)
    job(store, "a", 2, n=99)
    outdone = end(holder, "a")
    job(store, "a", 2, n=20)
    end(holder, "a")
    job(store, "b", 2)
    end(holder, "b")
    assert sorted(child.args["n"] for child in every_job(store, kind="child")) == [10, 20]
    assert hits(store, parent=outdone)[0]["child"] is None


def test_only_earlier_ends_without_a_child_are_answered(store: Store) -> None:
    """Of this job, of this rule."""
    store.rules.define([EACH, replace(EACH, name="each2")])
    holder = store.join()
    others = job(store, "a")
    end(holder, "a", fails=True)
    parent = job(store, "a")
    end(holder, "a")
    for fails in (True, True, False):
        store.jobs.retry(parent)
        end(holder, "a", fails=fails)
    assert [
        (row["generation"], row["child"] is None)
        for row in sorted(hits(store, rule="each", parent=parent), key=lambda row: row["generation"])
    ] == [
        (1, False),
        (4, False),
    ]
    assert len(hits(store, parent=others)) == 2
    store.jobs.retry(others)
    end(holder, "a", fails=True)
    assert len(hits(store, parent=others)) == 4
    row = f'[{{"parent":"{others}","rule":"each","generation":2}}]'
    store.db.run("hit.drop_earlier", hits=row)
    assert [
        (row["rule"], row["generation"]) for row in hits(store, parent=others) if row["rule"] == "each"
    ] == [("each", 2)]
    assert len(hits(store, parent=others, rule="each2")) == 2


# ------------------------------------------------------------------------------------------------ catching up


@pytest.mark.parametrize("table", ["job", "job_later"])
def test_jobs_are_flagged_page_by_page_and_only_those_of_the_kind(
    store: Store, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delay = {} if table == "job" else {"delay": timedelta(hours=1)}
    mine, others = enqueue(store, "a", 7, **delay), enqueue(store, "other", 7, **delay)

    def flagged() -> set[str]:
        return {row["id"] for row in rows(store, table) if row["flags"] & int(Flag.RULES)}

    verb = "rule.flag_live" if table == "job" else "rule.flag_later"
    assert store.db.run(verb, kinds=["a"], after=SMALLEST, limit=2)[0][0] == sorted([*mine, *others])[1]
    assert flagged() == set(sorted([*mine, *others])[:2]) - set(others)
    assert store.db.run(verb, kinds=["a"], after=LARGEST, limit=2)[0][0] is None
    monkeypatch.setattr(store_rules, "PAGE", 2)
    store.rules.put(EACH)
    assert flagged() == set(mine)


def test_ends_are_found_page_by_page_and_only_those_that_are_meant(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_rules, "FIRED_AT_ONCE", 2)
    holder = store.join()

    def all_end(kind: str, n: int) -> None:
        enqueue(store, kind, n)
        holder.record([Completed(lease) for lease in holder.claim(kind, n)])

    all_end("a", 3)
    clock.advance(1)
    since = store.now()
    all_end("other", 3)
    all_end("a", 5)
    found = store.db.read("rule.missed", kinds=["a"], since=since, after=SMALLEST, unflagged=True, limit=3)
    assert len(found) == 3
    rest = store.db.read("rule.missed", kinds=["a"], since=since, after=found[-1][0], unflagged=True, limit=9)
    assert len({row[0] for row in found + rest}) == 5
    store.rules.define([EACH])
    enqueue(store, "a", 1)
    flagged = end(holder, "a")
    unflagged = store.db.read(
        "rule.missed", kinds=["a"], since=since, after=SMALLEST, unflagged=True, limit=9
    )
    every = store.db.read("rule.missed", kinds=["a"], since=since, after=SMALLEST, unflagged=False, limit=9)
    assert {row[0] for row in every} - {row[0] for row in unflagged} == {flagged}
    assert store.rules.backfill("each", since) == 5 and store.rules.backfill("each", since) == 0


def test_only_the_ends_that_are_asked_for_are_told(store: Store) -> None:
    holder = store.join()
    ids = enqueue(store, "a", 3)
    holder.record([Completed(lease) for lease in holder.claim("a", 3)])
    told = store.db.run("rule.ended", ids=[ids[1], new_id()], since=None)
    assert [row[0] for row in told] == [ids[1]]


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
