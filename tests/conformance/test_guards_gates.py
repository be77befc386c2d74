"""Places and gates, row by row: which places a check misses, what a repair makes of them, and which gates go."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import NamedTuple

from tests.conformance.bystanders import execute, rows
from tests.conformance.life import one
from windlass.features import Store
from windlass.store.ids import SMALLEST, new_id

NAMED = ("work", "a")
OTHERS = [("work", "b"), ("other", "a")]


class Place(NamedTuple):
    """A row of limits, where its job is, and what a repair makes of the row: (admitted, gone), or None where it goes."""

    where: str
    admitted: bool
    gone: bool
    after: tuple[bool, bool] | None
    has_limit: bool = True


IN, OUT, GONE = (True, False), (False, False), (True, True)
PLACES = {
    "queued": Place("queued", *IN, IN),
    "queued without a place": Place("queued", *OUT, IN),
    "queued, its place given up": Place("queued", *GONE, IN),
    "paced without a place": Place("paced", *OUT, IN),
    "waits with a place": Place("waits", *IN, OUT),
    "queued elsewhere with a place": Place("queued elsewhere", *IN, OUT),
    "queued elsewhere": Place("queued elsewhere", *OUT, OUT),
    "paced elsewhere with a place": Place("paced elsewhere", *IN, OUT),
    "paced elsewhere": Place("paced elsewhere", *OUT, OUT),
    "not there": Place("nowhere", *IN, None),
    "not there, its place given up": Place("nowhere", *GONE, GONE),
    "not there, without a place": Place("nowhere", *OUT, OUT),
    "queued with a rate alone": Place("queued", *OUT, OUT, has_limit=False),
}


def put(store: Store, place: Place, phase: str, key: str) -> str:
    """Make the job and the row, as a mistake might leave them; the job's id."""
    if place.where == "nowhere":
        job = new_id()
    else:
        here = "elsewhere" if "elsewhere" in place.where else phase
        job = one(store, here, delay=None if "queued" in place.where else timedelta(hours=1))
    if "paced" in place.where:
        execute(store, f"UPDATE {{p}}job_later SET reason = 'paced' WHERE id = '{job}'")
    row = {"job": job, "phase": phase, "key": key, "lim": 9, "rate": None, "burst": None}
    if not place.has_limit:
        row |= {"lim": None, "rate": 1.0, "burst": 1}
    store.db.run("enqueue.limits", limits=json.dumps([row]))
    change = f"admitted = {str(place.admitted).upper()}, gone = {str(place.gone).upper()}"
    execute(store, f"UPDATE {{p}}job_limit SET {change} WHERE job = '{job}'")
    return job


def gates(*names: tuple[str, str]) -> str:
    return json.dumps([{"phase": phase, "key": key} for phase, key in names])


def test_a_check_misses_the_job_of_each_place_that_was_given(store: Store) -> None:
    """A place is used by its own job, queued or paced in the phase of the place, and by one that is still to be freed."""
    given = {name: place for name, place in PLACES.items() if place.admitted}
    given["paced"] = Place("paced", *IN, IN)
    for name, place in given.items():
        put(store, place, "work", name)
        store.db.run("gate.open", gates=gates(("work", name)))
    execute(store, "UPDATE {p}gate SET admitted = 1")
    wrong = sorted(name for name, place in given.items() if place.after not in (IN, GONE))
    assert [(drift.key, drift.given, drift.used) for drift in store.limits.check()] == [
        (name, 1, 0) for name in wrong
    ]
    assert [drift.key for drift in store.limits.check(limit=2)] == wrong[:2]


def test_a_repair_gives_places_to_the_jobs_that_need_one_at_the_gates_that_are_named(store: Store) -> None:
    jobs = {
        (phase, key, name): put(store, place, phase, key)
        for phase, key in (NAMED, *OTHERS)
        for name, place in PLACES.items()
    }
    store.db.run("gate.open", gates=gates(NAMED, *OTHERS))
    execute(store, "UPDATE {p}gate SET admitted = 99")
    store.db.run("gates.repair", gates=gates(NAMED))
    found = {row["job"]: (bool(row["admitted"]), bool(row["gone"])) for row in rows(store, "job_limit")}
    for (phase, key, name), job in jobs.items():
        place = PLACES[name]
        expected = place.after if (phase, key) == NAMED else (place.admitted, place.gone)
        assert found.get(job) == expected, (phase, key, name)
    counts = {(row["phase"], row["key"]): row["admitted"] for row in rows(store, "gate")}
    admitted = sum(place.after in (IN, GONE) for place in PLACES.values())
    assert counts == {NAMED: admitted, **dict.fromkeys(OTHERS, 99)}


def test_only_gates_that_are_named_and_where_nobody_waits_are_swept(store: Store) -> None:
    """Though jobs wait at the same key of another phase, and at another key of the phase."""
    store.db.run("gate.open", gates=gates(NAMED, *OTHERS, ("other", "b")))
    for phase, key in OTHERS:
        job = one(store, phase, delay=timedelta(hours=1))
        execute(store, f"UPDATE {{p}}job_later SET reason = 'limited', gate = '{key}' WHERE id = '{job}'")
    store.db.run("gates.sweep", gates=gates(NAMED, *OTHERS))
    assert {(row["phase"], row["key"]) for row in rows(store, "gate")} == {*OTHERS, ("other", "b")}


def test_of_jobs_that_ended_only_limits_without_a_place_go_at_once(store: Store) -> None:
    """A place is given up where it is named, and freed later; other jobs keep their limits and their places."""
    jobs = {
        (name, n): put(store, PLACES[name], "work", "a")
        for name in ("not there", "not there, without a place")
        for n in (1, 2)
    }
    store.db.run("free.later", ids=[], ended=[jobs["not there", 1], jobs["not there, without a place", 1]])
    kept = {*jobs.values()} - {jobs["not there, without a place", 1]}
    assert {row["job"] for row in rows(store, "job_limit")} == kept
    store.db.run("free.later", ids=[jobs["not there", 1], jobs["not there, without a place", 2]], ended=[])
    assert {row["job"] for row in rows(store, "job_limit") if row["gone"]} == {jobs["not there", 1]}
    assert {row["job"] for row in rows(store, "job_limit")} == kept


def test_places_that_were_given_up_are_picked_from_a_place_on(store: Store) -> None:
    """By job and phase; a page at a time."""
    first, second = sorted([new_id(), new_id()])
    places = [(first, "a"), (first, "b"), (second, "a")]
    limits = [
        {"job": job, "phase": phase, "key": "k", "lim": 9, "rate": None, "burst": None}
        for job, phase in (*places, (second, "b"))
    ]
    store.db.run("enqueue.limits", limits=json.dumps(limits))
    execute(store, "UPDATE {p}job_limit SET admitted = TRUE")
    execute(store, f"UPDATE {{p}}job_limit SET gone = TRUE WHERE job = '{first}' OR phase = 'a'")

    def page(job: str, phase: str, limit: int = 9) -> list[tuple[str, str]]:
        return [row[:2] for row in store.db.run("free.gone", job=job, phase=phase, limit=limit)]

    assert page(SMALLEST, "", 2) == places[:2]
    assert page(*places[0]) == places[1:]
    assert page(*places[1]) == places[2:]
    assert page(*places[2]) == []
