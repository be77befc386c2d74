"""What the reasons of waiting jobs are made of: rows of one job, one gate, one fan-in, where there are others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.conformance.bystanders import rows
from tests.conformance.life import enqueue
from tests.conformance.rule_rows import EACH, PAIR, end, hits, job
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import JobLimit, Rate
from windlass.model.rule import Rule

EVERYTHING = {"sees": "all", "subject": None, "issuer": None, "tenant": None}


def limited(store: Store, phase: str, key: str, n: int = 1) -> list[str]:
    ids = enqueue(store, phase, n, limits=[JobLimit(phase=phase, key=key, limit=1)])
    assert store.limits.assign()
    return ids


def read(store: Store, verb: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a verb; ids as texts."""
    found = store.db.transact(lambda tx: tx.run(verb, **parameters))
    return [tuple(str(value) if hasattr(value, "hex") else value for value in row) for row in found]


def test_a_job_gets_another_key_in_one_phase(store: Store) -> None:
    limits = [JobLimit(phase=phase, key="k", limit=1) for phase in ("work", "later")]
    changed, other = enqueue(store, "work", 2, limits=limits)
    store.db.run("limits.rekey", id=changed, phase="later", key="new")
    keys = {(row["job"], row["phase"]): row["key"] for row in rows(store, "job_limit")}
    assert keys == {
        (changed, "work"): "k", (changed, "later"): "new", (other, "work"): "k", (other, "later"): "k",
    }  # fmt: skip


def test_the_limit_of_a_job_is_that_of_its_phase(store: Store) -> None:
    job_id = enqueue(
        store, limits=[JobLimit(phase=phase, key=phase, limit=1) for phase in ("work", "later")]
    )[0]
    assert [row[0] for row in read(store, "limits.in_phase", id=job_id, phase="later")] == ["later"]


def test_holders_of_a_place_are_those_of_one_gate(store: Store) -> None:
    first = limited(store, "work", "a", 2)[0]
    limited(store, "work", "b"), limited(store, "other", "a")
    for limit, key in ((9, "a"), (1, "a")):
        found = read(store, "limits.holders", phase="work", key=key, limit=limit, **EVERYTHING)
        assert found == [(first,)]
    wide = enqueue(store, "wide", 3, limits=[JobLimit(phase="wide", key="a", limit=3)])
    assert store.limits.assign()
    assert len(read(store, "limits.holders", phase="wide", key="a", limit=2, **EVERYTHING)) == 2 < len(wide)


def before(store: Store, verb: str, job_id: str, limit: int = 9, **more: str) -> int:
    (row,) = rows(store, "job_later", f"id = '{job_id}'")
    at = store.jobs.get(job_id).run_at
    assert at is not None
    place = {"phase": row["phase"], "lane": row["lane"], "at": at, "id": job_id}
    ((count,),) = read(store, verb, **place, limit=limit, **more)
    return int(count)


def test_jobs_before_one_at_a_gate_wait_at_that_gate(store: Store) -> None:
    for phase, key in (("work", "b"), ("other", "a")):
        limited(store, phase, key, 3)
    ids = limited(store, "work", "a", 4)  # the first has the place
    assert [before(store, "limits.before", name, gate="a") for name in ids[1:]] == [0, 1, 2]
    assert before(store, "limits.before", ids[3], limit=1, gate="a") == 1


def test_jobs_before_one_that_waits_for_a_rate_wait_for_that_rate(store: Store, clock: ManualClock) -> None:
    rate = Rate(1, 1)
    enqueue(store, "work", delay=timedelta(seconds=1))
    clock.advance(2)  # due, and not promoted yet
    enqueue(store, "other", 4, limits=[JobLimit(phase="other", rate=rate)])
    ids = enqueue(store, "work", 4, limits=[JobLimit(phase="work", rate=rate)])
    assert store.limits.assign()
    waiting = [name for name in ids if store.jobs.get(name).reason == "paced"]
    assert len(waiting) >= 3
    assert [before(store, "limits.paced_before", name) for name in waiting] == [*range(len(waiting))]
    assert before(store, "limits.paced_before", waiting[-1], limit=1) == 1


# ------------------------------------------------------------------------------------------------------------------ rules

OTHER = Rule(name="other", parents=("a", "c"), create="child", phase="child", key=("args.k",), args={})


def test_only_ends_without_a_child_are_childless(store: Store) -> None:
    store.rules.define([EACH, PAIR])
    holder = store.join()
    job(store, "a")
    parent = end(holder, "a")
    assert [row[0] for row in read(store, "hit.childless", id=parent)] == ["pair"]


def test_a_fan_in_is_found_by_its_rule_and_its_key(store: Store) -> None:
    store.rules.define([PAIR, OTHER])
    holder = store.join()
    for k in (1, 2):
        job(store, "a", k)
        end(holder, "a")
    keys = {(row["rule"], row["key"]): row["id"] for row in rows(store, "fan_in")}
    assert len(keys) == 4
    for (rule, key), fan_in in keys.items():
        assert [row[0] for row in read(store, "fan_in.of_key", rule=rule, key=key)] == [fan_in]


def test_kinds_that_have_arrived_are_those_of_one_round_that_count(store: Store) -> None:
    store.rules.define([PAIR])
    holder = store.join()
    for kind in "ab":
        job(store, kind)
        end(holder, kind)  # the first round is complete
    job(store, "a"), job(store, "a")
    _, last = end(holder, "a"), end(holder, "a")
    ((fan_in, round_),) = {(row["id"], row["round"]) for row in rows(store, "fan_in")}
    outdone = [row for row in hits(store, round=round_) if row["parent"] != last]
    assert [bool(row["counts"]) for row in outdone] == [False]
    assert [row[2] for row in read(store, "fan_in.arrived", fan_in=fan_in, round=round_)] == [last]


def test_rules_that_count_an_end_are_those_of_that_job_with_a_fan_in(store: Store) -> None:
    far = Rule(name="far", parents=("c", "d"), create="child", phase="child", key=("args.k",), args={})
    store.rules.define([EACH, PAIR, far])
    holder = store.join()
    for kind in "ac":
        job(store, kind)
    parent, _ = end(holder, "a"), end(holder, "c")
    assert read(store, "hit.counted", id=parent) == [("pair",)]


def test_edges_of_rules_are_those_of_the_jobs_and_have_children(store: Store) -> None:
    store.rules.define([EACH, PAIR])
    holder = store.join()
    parents = []
    for k in (1, 2):
        job(store, "a", k)
        parents.append(end(holder, "a"))
    children = [hits(store, rule="each", parent=parent)[0]["child"] for parent in parents]
    assert read(store, "relations.children", ids=parents[:1], limit=9) == [(parents[0], children[0])]
    assert read(store, "relations.parents", ids=children[:1], limit=9) == [(parents[0], children[0])]
