"""Failed jobs, grouped by kind, phase, error and place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.control.conftest import ANNA, BERT, BOSS, CARA, OPS
from windlass import App
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import JobError, NewJob
from windlass.model.principal import Principal
from windlass.store.jobs import failures
from windlass.store.jobs.error_place import place_of

TRACE = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/windlass/engine/attempt.py", line 88, in run
    handler()
  File "/srv/app/orders.py", line {line}, in parse_row
    int("x")
ValueError: bad row
"""


def _fail(
    store: Store,
    *,
    error: str = "ValueError",
    line: int = 7,
    who: Principal | None = None,
    kind: str = "welcome",
) -> str:
    (made,) = store.enqueue([NewJob(kind=kind, args={}, principal=who)])
    holder = store.join()
    (lease,) = holder.claim(kind, 1)
    holder.fail(
        lease, JobError(type=error, code="exception", message="bad row", traceback=TRACE.format(line=line))
    )
    return made.id


def test_failures_with_one_cause_are_one_group(app: App, store: Store) -> None:
    first, last = _fail(store, line=7), _fail(store, line=8)
    other = _fail(store, error="KeyError")
    found = app.failures.list()
    groups = {group.type: group for group in found.groups}
    assert set(groups) == {"ValueError", "KeyError"} and found.searched == 3 and not found.more
    group = groups["ValueError"]
    assert (group.kind, group.phase, group.place) == ("welcome", "welcome", "orders.py:parse_row")
    assert (group.hour, group.day, group.week, group.total) == (2, 2, 2, 2)
    assert group.sample in (first, last) and groups["KeyError"].sample == other
    assert group.message == "bad row"


def test_groups_count_the_last_hour_day_and_week(app: App, store: Store, clock: ManualClock) -> None:
    _fail(store)
    clock.advance(timedelta(days=6))
    _fail(store)
    clock.advance(timedelta(hours=23))
    _fail(store)
    clock.advance(timedelta(minutes=30))
    (group,) = app.failures.list().groups
    assert (group.hour, group.day, group.week, group.total) == (1, 2, 3, 3)
    clock.advance(timedelta(days=1))
    (group,) = app.failures.list().groups
    assert (group.hour, group.day, group.week, group.total) == (0, 0, 2, 3)


def test_kind_and_phase_narrow_the_groups(app: App, store: Store) -> None:
    _fail(store)
    _fail(store, kind="report")
    assert [group.kind for group in app.failures.list(kind="report").groups] == ["report"]
    assert [group.kind for group in app.failures.list(phase="welcome").groups] == ["welcome"]


def test_more_failures_than_a_window_are_read_in_several(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(7):
        _fail(store)
    monkeypatch.setattr(failures, "WINDOW", 2)
    monkeypatch.setattr(failures, "BUDGET", 60.0)
    found = app.failures.list()
    assert [group.total for group in found.groups] == [7] and found.searched == 7 and not found.more
    monkeypatch.setattr(failures, "MOST", 4)
    found = app.failures.list()
    assert [group.total for group in found.groups] == [4] and found.searched == 4 and found.more


def test_each_actor_sees_the_failures_of_its_own_jobs(app: App, store: Store) -> None:
    for who in (ANNA, BERT, CARA, None):
        _fail(store, who=who)
    totals = {
        who.subject: sum(group.total for group in app.acting_as(who).failures.list().groups)
        for who in (ANNA, BERT, CARA, OPS, BOSS)
    }
    assert totals == {"anna": 1, "bert": 1, "cara": 1, "olga": 2, "boss": 4}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (TRACE.format(line=1), "orders.py:parse_row"),
        (None, None),
        ("no frames", None),
        ('  File "/x/lib/python3.11/json/decoder.py", line 3, in decode\n', "decoder.py:decode"),
        ('  File "C:/app/orders.py", line 3, in <module>\n', "orders.py:<module>"),
    ],
)
def test_the_place_is_the_last_frame_of_the_applications_code(text: str | None, place: str | None) -> None:
    assert place_of(text) == place
