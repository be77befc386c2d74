"""Guards of the rules' SQL that only show beside others: rows of another rule, key, round, kind, generation or job."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conformance.bystanders import execute, rows
from tests.conformance.life import enqueue, every_job
from tests.conformance.rule_rows import EACH, PAIR, end, hits, job
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Completed, Flag
from windlass.model.principal import Principal
from windlass.rules import store as store_rules
from windlass.store.ids import LARGEST, SMALLEST, new_id

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


def test_groups_that_rest_take_no_place_in_a_list(store: Store) -> None:
    store.rules.define([PAIR])
    holder = store.join()
    for kind, k in (("a", 1), ("b", 1), ("a", 2)):
        job(store, kind, k)
        end(holder, kind)
    assert [row[2] for row in store.db.read("fan_in.list", rule=None, limit=1)] == ["[2]"]


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


def test_a_change_does_not_count_ends_anew_that_were_outdone_in_a_round_that_is_over(store: Store) -> None:
    store.rules.define([PAIR])
    holder = store.join()
    for kind in "aab":
        job(store, kind)
        end(holder, kind)
    assert store.db.run("hit.forget", rule="pair") == [] and len(hits(store)) == 3
    store.rules.define([replace(PAIR, key=("args.n",))])
    assert store.rules.open() == []


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
    store.db.run("fan_in.supersede", hits=f'[{{"parent":"{second}","rule":"pair","generation":1}}]')
    assert [row["rule"] for row in hits(store, parent=second) if row["counts"]] == ["other"]


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


def test_each_round_keeps_the_child_it_has_made(store: Store) -> None:
    """And of its kind the one end that counts."""
    store.rules.define([PAIR])
    holder = store.join()
    for kind in "aabab":
        job(store, kind)
        end(holder, kind)
    made = {n: {row["child"] for row in hits(store, round=n) if row["counts"]} for n in (1, 2)}
    assert [len(children) for children in made.values()] == [1, 1] and made[1] != made[2]
    (group,) = rows(store, "fan_in")
    for kind in "ab":
        (counting,) = (row for row in hits(store, round=1, kind=kind) if row["counts"])
        asked = json.dumps([{"fan_in": group["id"], "round": 1, "kind": kind}])
        assert [row[2] for row in store.db.run("fan_in.counting", kinds=asked)] == [counting["parent"]]


def test_a_group_is_read_and_closed_beside_others_of_the_same_parents(store: Store) -> None:
    """Beside another rule of the same parents, other groups, other rounds, and an earlier end of the same job."""
    store.rules.define([PAIR, replace(PAIR, name="three", parents=("a", "b", "c"))])
    holder = store.join()
    job(store, "a", 2)
    end(holder, "a")
    again = job(store, "a")
    end(holder, "a")
    store.jobs.retry(again)
    end(holder, "a")
    job(store, "b")
    last = end(holder, "b")
    made = {(row["rule"], row["parent"], row["generation"]) for row in hits(store) if row["child"]}
    assert made == {("pair", again, 2), ("pair", last, 1)}
    asked = json.dumps([{"parent": again, "rule": "three"}])
    earlier = {tuple(row[:3]) for row in store.db.run("fan_in.earlier", hits=asked)}
    assert earlier == {(again, "three", 1), (again, "three", 2)}
    job(store, "a")
    third = end(holder, "a")
    (pair,) = (row["id"] for row in rows(store, "fan_in", "rule = 'pair'") if row["key"] == "[1]")
    parts = {
        n: {row[2] for row in store.db.run("fan_in.parts", fan_ins=json.dumps([{"id": pair, "round": n}]))}
        for n in (1, 2)
    }
    assert parts == {1: {again, last}, 2: {third}}


def test_a_parent_that_is_gone_is_lost_whoever_else_is_there(store: Store) -> None:
    """With its principal; another job waits, another is queued, another has ended."""
    store.rules.define([PAIR])
    holder = store.join()
    job(store, "a", principal=Principal("asker"))
    gone = end(holder, "a")
    job(store, "other"), job(store, "other", delay=timedelta(hours=1))
    job(store, "ended")
    end(holder, "ended")
    asked = json.dumps([{"id": row["id"], "round": row["round"]} for row in rows(store, "fan_in")])
    lost = [store.db.run("fan_in.parts", fan_ins=asked)[0][4]]
    execute(store, f"DELETE FROM {{p}}job_done WHERE id = '{gone}'")
    lost.append(store.db.run("fan_in.parts", fan_ins=asked)[0][4])
    assert [bool(value) for value in lost] == [False, True]


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


def test_the_agenda_has_kinds_that_are_to_be_scanned(store: Store, clock: ManualClock) -> None:
    """At once, once more when every enqueue that did not know the kind has committed, and then no more."""
    assert not store.upkeep.agenda().has("new_kinds")
    store.rules.define([EACH])
    assert store.upkeep.agenda().has("new_kinds")
    store.rules.catch_up()
    assert not store.upkeep.agenda().has("new_kinds")
    clock.advance(16)
    assert store.upkeep.agenda().has("new_kinds")
    store.rules.catch_up()
    assert not store.upkeep.agenda().has("new_kinds")


def test_only_the_ends_that_are_asked_for_are_told(store: Store) -> None:
    holder = store.join()
    ids = enqueue(store, "a", 3)
    holder.record([Completed(lease) for lease in holder.claim("a", 3)])
    told = store.db.run("rule.ended", ids=[ids[1], new_id()], since=None)
    assert [row[0] for row in told] == [ids[1]]
