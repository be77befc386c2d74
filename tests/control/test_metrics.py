"""The metrics of a server that runs no jobs: the database's numbers, and how long jobs waited, as workers said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.control.conftest import BOSS
from windlass import App
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.observe.report import BUCKETS

NAME = "windlass_queue_wait_seconds"


def buckets(*counts: int) -> list[int]:
    return [*counts, *[0] * (BUCKETS - len(counts))]


def samples(app: App, name: str = NAME) -> dict[tuple[str, ...], float]:
    """The values of a metric by the suffix of their names and their labels."""
    families = text_string_to_metric_families(app.acting_as(BOSS).metrics.render().decode())
    found = next((family.samples for family in families if family.name == name), [])
    return {(one.name.removeprefix(name), *one.labels.values()): one.value for one in found}


def test_waits_are_those_of_living_workers(app: App, store: Store, clock: ManualClock) -> None:
    lost = store.join(lease=timedelta(seconds=10))
    first, second = (store.join(lease=timedelta(hours=1)) for _ in range(2))
    for holder, count in ((lost, 9), (first, 3), (second, 4)):
        waits = {"welcome": {"counts": buckets(1, count), "ms": 2500}}
        store.boards.put(holder.id, json.dumps({"waits": waits}))
    clock.advance(60)
    found = samples(app)
    assert {labels[-1] for labels in found if labels[0] != "_bucket"} == {first.id, second.id}
    for holder, count in ((first, 3), (second, 4)):
        assert found["_count", "welcome", holder.id] == 1 + count
        assert found["_sum", "welcome", holder.id] == 2.5
        assert bucket(found, holder.id) == [1, *[1 + count] * (BUCKETS - 1)]


def bucket(found: dict[tuple[str, ...], float], worker: str) -> Sequence[float]:
    return [value for labels, value in found.items() if labels[0] == "_bucket" and worker in labels]


def test_boards_of_other_releases_are_left_out(app: App, store: Store) -> None:
    others: list[Any] = [
        [],
        {"welcome": 1},
        {"welcome": {"counts": [1], "ms": 1}},
        {"welcome": {"counts": buckets(1)}},
    ]
    for waits in others:
        store.boards.put(store.join().id, json.dumps({"waits": waits}))
    assert samples(app) == {} and samples(app, "windlass_jobs") == {}
