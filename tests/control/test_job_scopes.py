"""Who sees which jobs: lists, counts, iterations and single jobs of users, operators and administrators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from windlass import App, JobNotFoundError, NewJob
from windlass.control import sources
from windlass.control.actor import OPERATOR
from windlass.control.job_reading import JobReading
from windlass.control.searching import Budget
from windlass.features import Store
from windlass.model import After, DependencyPolicy, JobError, Key, State
from windlass.model.principal import Principal

NAMESAKE = Principal("anna", tenant="other")
FOREIGN_ISSUER = Principal("anna", tenant="acme", issuer="https://other.example")
NO_TENANT = Principal("anna")
OWNERS = {
    "anna": ANNA,
    "bert": BERT,
    "cara": CARA,
    "namesake": NAMESAKE,
    "foreign": FOREIGN_ISSUER,
    "no tenant": NO_TENANT,
    "nobody": None,
}
SEES = {
    "app": (None, set(OWNERS)),
    "boss": (BOSS, set(OWNERS)),
    "operator of all": (Principal("root", roles=frozenset({OPERATOR})), set(OWNERS)),
    "operator of acme": (OPS, {"anna", "bert", "foreign"}),
    "anna": (ANNA, {"anna"}),
    "bert": (BERT, {"bert"}),
    "namesake": (NAMESAKE, {"namesake"}),
    "foreign": (FOREIGN_ISSUER, {"foreign"}),
    "no tenant": (NO_TENANT, {"no tenant"}),
    "stranger": (Principal("zoe", tenant="acme"), set()),
    "operator of another": (Principal("olga", tenant="none", roles=frozenset({OPERATOR})), set()),
}
STATES = (State.QUEUED, State.COMPLETED, State.FAILED, State.SCHEDULED)


@dataclass
class Jobs:
    """Four jobs in different states of each owner, and the summary of a batch of all of them."""

    app: App
    of: dict[str, list[str]] = field(default_factory=dict)
    batch: str = ""

    def wanted(self, names: set[str], states: set[State]) -> set[str]:
        return {
            job for name in names for job, state in zip(self.of[name], STATES, strict=True) if state in states
        }


@pytest.fixture(scope="module")
def jobs(open_shared: Callable[[], Store]) -> Iterator[Jobs]:
    store = open_shared()
    with App(store=store) as app:
        made, holder = Jobs(app), store.join()
        for name, principal in OWNERS.items():
            made.of[name] = [
                store.enqueue(
                    [
                        NewJob(
                            kind="welcome",
                            args={"state": state},
                            principal=principal,
                            correlation_id="same",
                            key=Key(f"{name}-{state}"),
                            delay=timedelta(days=1) if state is State.SCHEDULED else None,
                        )
                    ]
                )[0].id
                for state in STATES
            ]
            for job, state in zip(made.of[name], STATES, strict=True):
                if state in (State.COMPLETED, State.FAILED):
                    lease = holder.claim_one(job)
                    assert lease is not None
                    if state is State.FAILED:
                        holder.fail(lease, JobError(type="ValueError", code="bad", message="no"))
                    else:
                        holder.complete(lease)
        members = [After(job, DependencyPolicy.RUN) for ids in made.of.values() for job in ids]
        system = Principal("system", tenant="system")
        made.batch = store.enqueue(
            [NewJob(kind="album", after=members, principal=system, correlation_id="album")]
        )[0].id
        yield made


FILTERS = {
    "kind:welcome": set(STATES),
    "state:failed": {State.FAILED},
    "state:failed kind:welcome": {State.FAILED},
    "state:queued phase:welcome": {State.QUEUED},
    "-state:failed kind:welcome": set(STATES) - {State.FAILED},
    "correlation:same": set(STATES),
    "args.state:completed": {State.COMPLETED},
    "error:bad": {State.FAILED},
    "batch:<batch>": set(STATES),
    "batch:<batch> state:queued": {State.QUEUED},
    "id:<all>": set(STATES),
    "kind:nothing": set(),
}


@pytest.mark.parametrize("who", SEES)
@pytest.mark.parametrize("text", FILTERS)
def test_lists_counts_and_iterations_have_the_jobs_that_the_actor_sees(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, who: str, text: str
) -> None:
    principal, names = SEES[who]
    control = jobs.app.jobs if principal is None else jobs.app.acting_as(principal).jobs
    everyone = ",".join(job for ids in jobs.of.values() for job in ids)
    only = text.replace("<batch>", jobs.batch).replace("<all>", everyone)
    wanted = jobs.wanted(names, FILTERS[text])
    assert [job.id for job in control.list(only, limit=1000).jobs] == sorted(wanted, reverse=True)
    counted = control.count(only)
    assert (counted.count, counted.exact) == (len(wanted), True)
    if len(names) < len(OWNERS) and not text.startswith("id:"):
        assert counted.searched <= 4 * len(names)  # the number of other people's jobs is not to be seen
    for budget in (Budget(), Budget(rows=1, seconds=0, window=2, lookups=2)):
        monkeypatch.setattr(JobReading, "budget", budget)
        cursor, seen = None, set[str]()
        while True:
            page = control.list(only, cursor=cursor, limit=2)
            assert not seen & {job.id for job in page.jobs}
            seen |= {job.id for job in page.jobs}
            if (cursor := page.next_cursor) is None:
                break
            visible = jobs.wanted(names, set(STATES))
            assert len(names) == len(OWNERS) or text.startswith("id:") or cursor in visible
        assert seen == wanted
        assert {job.id for job in control.iterate(only, page=3)} == wanted


@pytest.mark.parametrize("who", SEES)
def test_a_filter_by_owner_or_key_does_not_widen_what_an_actor_sees(jobs: Jobs, who: str) -> None:
    principal, names = SEES[who]
    control = jobs.app.jobs if principal is None else jobs.app.acting_as(principal).jobs
    for owner, whose in OWNERS.items():
        for state in STATES:
            found = [job.id for job in control.list(f'key:"{owner}-{state}"').jobs]
            assert found == list(jobs.wanted({owner} & names, {state}))
        if whose is not None:
            by_name = {name for name, other in OWNERS.items() if other and other.subject == whose.subject}
            assert {
                job.id for job in control.iterate(f"principal:{whose.subject} kind:welcome")
            } == jobs.wanted(by_name & names, set(STATES))
    same = {"anna", "bert", "foreign"}
    assert {job.id for job in control.iterate("tenant:acme")} == jobs.wanted(same & names, set(STATES))
    others = {job.id for job in control.iterate("-tenant:acme kind:welcome")}
    assert others == jobs.wanted(names - same, set(STATES))


@pytest.mark.parametrize("who", SEES)
def test_long_batches_and_keys_of_many_jobs_do_not_widen_it_either(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    monkeypatch.setattr(sources, "SHORT", 0)
    principal, names = SEES[who]
    control = jobs.app.jobs if principal is None else jobs.app.acting_as(principal).jobs
    members = {job.id for job in control.iterate(f"batch:{jobs.batch}")}
    assert members == jobs.wanted(names, set(STATES))
    for owner in OWNERS:
        found = {job.id for job in control.iterate(f'key:"{owner}-failed"')}
        assert found == jobs.wanted({owner} & names, {State.FAILED})


@pytest.mark.parametrize("who", SEES)
def test_single_jobs_of_others_do_not_exist(jobs: Jobs, who: str) -> None:
    principal, names = SEES[who]
    control = jobs.app.jobs if principal is None else jobs.app.acting_as(principal).jobs
    calls: list[Callable[[str], Any]] = [control.get, control.timeline, control.progress, control.outputs]
    for owner, ids in jobs.of.items():
        for call in calls:
            if owner in names:
                call(ids[0])
            else:
                with pytest.raises(JobNotFoundError):
                    call(ids[0])
