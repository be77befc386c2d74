"""Every key of filters on every database: what it finds, what it finds with a minus sign, lists and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tests.control.conftest import ANNA, BERT
from windlass import App
from windlass.clock import ManualClock
from windlass.control import sources
from windlass.control.filters.keys import KEYS
from windlass.features import Store
from windlass.model import After, DependencyPolicy, JobError, Key, Lease, NewJob
from windlass.store.jobs.holder import Holder


@dataclass
class World:
    """Jobs in all states, by name."""

    app: App
    holder: Holder
    ids: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, kind: str, **options: Any) -> str:
        (made,) = self.app.parts.store.enqueue([NewJob(kind=kind, **options)])
        self.ids[name] = made.id
        return made.id

    def claim(self, name: str) -> Lease:
        lease = self.holder.claim_one(self.ids[name])
        assert lease is not None
        return lease

    def found(self, text: str) -> set[str]:
        names = {job: name for name, job in self.ids.items()}
        return {names[job.id] for job in self.app.jobs.iterate(self.filled(text), page=3)}

    def filled(self, text: str) -> str:
        for name, job in self.ids.items():
            text = text.replace(f"<{name}>", job)
        return text.replace("<instance>", self.holder.id)


@pytest.fixture(scope="module")
def world(open_shared: Callable[[], Store]) -> Iterator[World]:
    store = open_shared()
    clock = store.db.clock
    assert isinstance(clock, ManualClock)
    with App(store=store) as app:
        app.job(name="mail")(lambda: None)  # its jobs are in a phase of another name
        made = World(app, store.join())
        _old(made)
        clock.advance(timedelta(hours=1))
        _new(made, store)
        yield made


def _old(made: World) -> None:
    """Jobs that were created at midnight and ended, or will be tried again."""
    args: dict[str, Any] = {
        "county": "Harju",
        "n": 7,
        "ok": True,
        "none": None,
        "deep": [10, {"x": "y"}],
        "a.b": "dot",
        "0": {"0": 1},
    }
    made.add("done", "report", args=args, priority=9, correlation_id="c-1", principal=ANNA)
    made.add("failed", "report", args={"county": "Tartu", "n": 2.5, "text": "7"}, priority=0, principal=BERT)
    made.add("cancelled", "mail", args={"county": "harju", "ok": "true"}, phase="send")
    made.add("retried", "reporting", args={"county": "", "n": -3})
    made.add("keyed", "mail", key=Key("order-8"), phase="send")
    made.holder.complete(made.claim("done"), result="ok")
    made.holder.fail(made.claim("failed"), JobError(type="ValueError", code="bad", message="no"))
    made.app.parts.store.jobs.cancel(made.ids["cancelled"])
    made.holder.retry_later(
        made.claim("retried"), JobError(type="KeyError", code="flaky", message="no"), timedelta(days=1)
    )
    made.holder.complete(made.claim("keyed"))


def _new(made: World, store: Store) -> None:
    """Jobs that were created an hour later and live."""
    made.add("queued", "report", key=Key("order-7"), args={"county": "Harju", "n": 100})
    made.add("processing", "sync", priority=6)
    made.add("scheduled", "sync", delay=timedelta(days=1), args={"deep": {"0": "zero"}})
    made.claim("processing")
    after = [After(made.ids[name], DependencyPolicy.RUN) for name in ("queued", "cancelled")]
    made.add("waiting", "album", after=after, correlation_id="album")
    store.dependencies.link()


CASES = {
    "state:failed": "failed",
    "state:failed,cancelled": "failed cancelled",
    "state:completed": "done keyed",
    "state:completed,failed": "done keyed failed",
    "state:queued": "queued",
    "state:processing": "processing",
    "state:queued,processing": "queued processing",
    "state:scheduled": "retried scheduled",
    "state:waiting": "waiting",
    "state:waiting,scheduled,queued": "waiting retried scheduled queued",
    "kind:report": "done failed queued",
    "kind:report*": "done failed queued retried",
    "kind:report,mail": "done failed queued cancelled keyed",
    'kind:"report*"': "",
    "kind:r*,s*": "done failed queued retried processing scheduled",
    "kind:Report": "",
    "phase:send": "cancelled keyed",
    "phase:se*,album": "cancelled keyed waiting",
    "phase:nowhere": "",
    "id:<done>": "done",
    "id:<done>,<queued>,<waiting>": "done queued waiting",
    "correlation:c-1": "done",
    "correlation:<queued>": "queued",
    "correlation:c-1,<queued>": "done queued",
    "key:order-7": "queued",
    "key:order-8": "keyed",
    "key:order-7,order-8,order-9": "queued keyed",
    "key:report:order-7": "queued",
    "key:mail:order-7": "",
    "principal:anna": "done",
    "principal:anna,bert": "done failed",
    "tenant:acme": "done failed",
    "tenant:other": "",
    "age:>30m": "done failed cancelled retried keyed",
    "age:<30m": "queued processing scheduled waiting",
    "age:>=1h": "done failed cancelled retried keyed",
    "age:>1h": "",
    "age:<=0s": "queued processing scheduled waiting",
    "created:>2026-01-01T00:00:00Z": "queued processing scheduled waiting",
    "created:>=2026-01-01": "done failed cancelled retried keyed queued processing scheduled waiting",
    "created:<2026-01-01T01:00Z": "done failed cancelled retried keyed",
    "created:<=2026-01-01T02:00+01:00": "done failed cancelled retried keyed queued processing scheduled waiting",
    "finished:<2026-01-02": "done failed cancelled keyed",
    "finished:>2026-01-02": "",
    "priority:9": "done",
    "priority:0,9": "done failed",
    "priority:>=6": "done processing",
    "priority:>6": "done",
    "priority:<5": "failed",
    "priority:<=5": "failed cancelled retried keyed queued scheduled waiting",
    "attempt:0": "cancelled queued scheduled waiting",
    "attempt:>0": "done failed retried keyed processing",
    "attempt:0,1": "done failed cancelled retried keyed queued processing scheduled waiting",
    "attempt:>=2": "",
    "instance:<instance>": "done failed keyed processing",
    "instance:<done>": "",
    "error:bad": "failed",
    "error:bad,flaky,cancelled": "failed retried cancelled",
    "error:none": "",
    "exception:KeyError": "retried",
    "exception:KeyError,ValueError": "failed retried",
    "batch:<waiting>": "queued cancelled",
    "batch:<waiting>,<done>": "queued cancelled",
    "batch:<done>": "",
    "args.county:Harju": "done queued",
    "args.county:Harju,Tartu": "done queued failed",
    'args.county:""': "retried",
    "args.n:7": "done",
    "args.n:7.0": "done",
    'args.n:"7"': "",
    "args.text:7": "failed",
    'args.text:"7"': "failed",
    "args.n:>7": "queued",
    "args.n:>=7": "done queued",
    "args.n:<2.6": "failed retried",
    "args.n:<=2.5": "failed retried",
    "args.ok:true": "done cancelled",
    'args.ok:"true"': "cancelled",
    "args.ok:>0": "",
    "args.none:null": "done",
    "args.missing:null": "",
    "args.deep.0:10": "done",
    "args.deep.0:zero": "scheduled",
    "args.deep.1.x:y": "done",
    "args.deep:10": "",
    'args."a.b":dot': "done",
    "args.a.b:dot": "",
    "args.0.0:1": "done",
    "args.COUNTY:Harju": "",
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_a_term_finds(world: World, text: str) -> None:
    assert world.found(text) == set(CASES[text].split())


@pytest.mark.parametrize("text", CASES)
def test_a_negated_term_finds_all_other_jobs(world: World, text: str) -> None:
    assert world.found(f"-{text}") == set(world.ids) - set(CASES[text].split())


@pytest.mark.parametrize("text", CASES)
def test_a_count_is_the_number_of_jobs_that_are_found(world: World, text: str) -> None:
    for only in (text, f"-{text}"):
        counted = world.app.jobs.count(world.filled(only))
        assert (counted.count, counted.exact) == (len(world.found(only)), True)


def test_the_same_jobs_are_found_where_no_index_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with too many values, or keys of too many kinds."""
    for name in ("MANY", "MANY_KEYS", "FEW"):
        monkeypatch.setattr(sources, name, -1)
    for text, names in CASES.items():
        assert world.found(text) == set(names.split()), text


def test_every_key_is_tried() -> None:
    assert {text.partition(":")[0].partition(".")[0] for text in CASES} == set(KEYS)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("state:failed kind:report", "failed"),
        ("state:failed,cancelled kind:report,mail", "failed cancelled"),
        ("state:failed kind:report*", "failed"),
        ("state:failed kind:mail", ""),
        ("-state:failed kind:report", "done queued"),
        ("kind:report* -kind:reporting -args.n:7", "failed queued"),
        ("principal:anna,bert state:failed", "failed"),
        ("tenant:acme principal:anna", "done"),
        ("key:order-7 state:queued", "queued"),
        ("key:order-7 state:failed", ""),
        ("key:order-7 kind:report", "queued"),
        ("key:order-8 kind:report,mail", "keyed"),
        ("key:order-7 kind:mail", ""),
        ("batch:<waiting> state:cancelled", "cancelled"),
        ("phase:report state:queued", "queued"),
        ("phase:report state:queued args.n:<5", ""),
        ("state:processing kind:sync", "processing"),
        ("state:processing instance:<instance>", "processing"),
        ("state:processing -instance:<instance>", ""),
        ("args.county:Harju args.n:>50", "queued"),
        ("id:<done>,<queued> -key:order-7", "done"),
        ("created:>=2026-01-01 created:<2026-01-01T00:30Z priority:>4", "done cancelled retried keyed"),
        ("-finished:>2025-01-01", "queued processing scheduled waiting retried"),
        ("-finished:>2025-01-01 finished:<2027-01-01", ""),
        ("error:bad exception:ValueError attempt:1 priority:0 principal:bert phase:report", "failed"),
    ],
)
def test_all_terms_have_to_hold(world: World, text: str, names: str) -> None:
    assert world.found(text) == set(names.split())


def test_a_job_that_is_found_is_the_whole_job(world: World) -> None:
    for name in world.ids:
        (listed,) = world.app.jobs.list(world.filled(f"id:<{name}>")).jobs
        got = world.app.jobs.get(world.ids[name])
        assert (listed.args, listed.state, listed.error, listed.result, listed.reason) == (
            got.args,
            got.state,
            got.error,
            got.result,
            got.reason,
        )
