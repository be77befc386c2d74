"""The jobs around a job, folded by level, kind and state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.control.conftest import ANNA, BERT
from windlass import App
from windlass.control.actor import EVERYTHING
from windlass.dependencies.relations import LEVELS, RelationReader
from windlass.errors import JobNotFoundError
from windlass.features import Store
from windlass.model import After, DependencyPolicy, NewJob


@pytest.fixture
def app(store: Store) -> Iterator[App]:
    with App(store=store) as made:
        yield made


def jobs(app: App, kind: str, count: int = 1, after: tuple[str, ...] = (), **options: Any) -> list[str]:
    new = [NewJob(kind=kind, after=[After(one) for one in after], **options) for _ in range(count)]
    return [made.id for made in app.store.enqueue(new)]


def groups(app: App, job: str) -> list[tuple[int, str, str, int]]:
    return [(one.level, one.kind, one.state, one.count) for one in app.jobs.related(job).groups]


def test_a_job_alone_is_a_group_of_one(app: App) -> None:
    (job,) = jobs(app, "alone")
    found = app.jobs.related(job)
    assert groups(app, job) == [(0, "alone", "queued", 1)]
    assert (list(found.edges), found.is_cut, found.groups[0].sample) == ([], False, job)


def test_a_fan_out_and_its_fan_in_are_folded(app: App) -> None:
    (first,) = jobs(app, "split")
    parts = jobs(app, "part", 300, (first,))
    (last,) = jobs(app, "join", 1, tuple(parts))
    app.jobs.cancel(parts[0], "no")
    expected = [(0, "split", "queued", 1), (1, "part", "cancelled", 1), (1, "part", "waiting", 299)]
    assert groups(app, first)[:3] == expected
    assert groups(app, first)[3][:2] == (2, "join")
    assert [one[:2] for one in groups(app, last)] == [(-2, "split"), (-1, "part"), (-1, "part"), (0, "join")]
    edges = app.jobs.related(first).edges
    assert {(one.parent, one.child, one.count) for one in edges} >= {(0, 1, 1), (0, 2, 299)}


def test_jobs_far_away_are_left_out_and_said(app: App) -> None:
    line = jobs(app, "step")
    for _ in range(LEVELS + 1):
        line += jobs(app, "step", 1, (line[-1],))
    found = app.jobs.related(line[0])
    assert max(one.level for one in found.groups) == LEVELS and found.is_cut
    assert not app.jobs.related(line[3]).is_cut


def test_a_level_of_more_than_the_limit_is_cut(app: App) -> None:
    (first,) = jobs(app, "split")
    jobs(app, "part", 12, (first,))
    found = RelationReader(app.store.db, most=10).read(first, EVERYTHING.parameters())
    assert found.is_cut and len(found.jobs) == 11


def test_jobs_of_others_are_not_counted(app: App) -> None:
    (first,) = jobs(app, "split", principal=ANNA)
    jobs(app, "part", 2, (first,), principal=ANNA)
    jobs(app, "part", 3, (first,), principal=BERT)
    assert groups(app, first)[1][3] == 5
    of_anna = app.acting_as(ANNA).jobs.related(first)
    assert [(one.level, one.count) for one in of_anna.groups] == [(0, 1), (1, 2)]
    with pytest.raises(JobNotFoundError):
        app.acting_as(BERT).jobs.related(first)


def test_parents_of_others_are_not_shown_in_any_state(app: App, store: Store) -> None:
    """Queued, waiting and ended ones; and jobs that are not related are not read."""
    app.jobs.cancel(jobs(app, "bystander", 2)[0], "no")
    (queued,) = jobs(app, "queued", principal=BERT)
    (waiting,) = jobs(app, "waiting", 1, (queued,), principal=BERT)
    (ended,) = jobs(app, "ended", principal=BERT)
    app.jobs.cancel(ended, "no")
    new = NewJob(
        kind="child",
        principal=ANNA,
        after=[After(job, DependencyPolicy.RUN) for job in (queued, waiting, ended)],
    )
    (child,) = store.enqueue([new])
    assert sorted(kind for _, kind, _, _ in groups(app, child.id)) == ["child", "ended", "queued", "waiting"]
    assert [one.kind for one in app.acting_as(ANNA).jobs.related(child.id).groups] == ["child"]


def test_no_more_edges_are_read_than_the_limit(app: App, store: Store) -> None:
    (first,) = jobs(app, "split")
    parts = jobs(app, "part", 3, (first,))
    (last,) = jobs(app, "join", 1, tuple(parts))
    assert len(store.db.read("relations.children", ids=[first], limit=2)) == 2
    assert len(store.db.read("relations.parents", ids=[last], limit=2)) == 2


def test_jobs_that_a_rule_made_are_related(store: Store) -> None:
    with App(store=store) as app:
        app.job(name="hours")(lambda: None)
        app.job(name="summary")(lambda: None)
        app.when("hours", create="summary")
        app.sync()
        job = app.enqueue("hours")
        holder = store.join()
        lease = holder.claim_one(job.id)
        assert lease is not None
        holder.complete(lease)
        assert [one[:2] for one in groups(app, job.id)] == [(0, "hours"), (1, "summary")]
        made = app.jobs.related(job.id).groups[1].sample
        assert [one[:2] for one in groups(app, made)] == [(-1, "hours"), (0, "summary")]


def test_an_open_fan_in_has_no_child_yet(store: Store) -> None:
    with App(store=store) as app:
        for kind in ("hours", "leave", "summary"):
            app.job(name=kind)(takes_period)
        app.when_all(["hours", "leave"], create="summary", key=["args.period"])
        app.sync()
        job = app.enqueue("hours", period="2026-11")
        holder = store.join()
        lease = holder.claim_one(job.id)
        assert lease is not None
        holder.complete(lease)
        assert len(app.rules.open()) == 1
        assert groups(app, job.id) == [(0, "hours", "completed", 1)]


def takes_period(period: str) -> None: ...
