"""Letting the children of an ended parent know, page by page, beside the linker and beside another instance."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest

from tests.interleavings.sessions import Open, Waiting, claim, enqueue, until_blocked
from tests.waiting import PATIENCE
from windlass.dependencies import linking as dependencies
from windlass.features import Store
from windlass.model import After
from windlass.store.database import LATER
from windlass.store.ids import SMALLEST

PAGE = 2


@pytest.fixture
def store(postgres_dsn: str, stores: Open, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(dependencies, "PAGE", PAGE)
    return stores(postgres_dsn)


def half_settled(store: Store) -> tuple[str, list[str]]:
    """A parent that completed, and its children, of which a page knows."""
    (parent,) = enqueue(store, kind="parent")
    children = enqueue(store, 3 * PAGE, kind="child", after=[After(parent)])
    store.dependencies.link()
    holder = store.join()
    holder.complete(*claim(holder, phase="parent"))
    return parent, sorted(children)


def test_an_edge_that_the_linker_takes_meanwhile_is_not_consumed_again(
    postgres_dsn: str, store: Store
) -> None:
    """Else its child would be counted down twice; and no other edge is consumed in its place."""
    parent, children = half_settled(store)
    child, after = children[PAGE], children[PAGE - 1]
    mark = json.dumps(
        [{"parent": parent, "child": child, "state": "completed", "ended_at": store.now().isoformat()}]
    )
    ended = json.dumps([{"id": parent, "state": "completed", "after": after}])
    with psycopg.connect(postgres_dsn) as linker:
        linker.execute(
            "UPDATE windlass.job_dep SET parent_state = 'completed', parent_ended_at = now() WHERE child = %s",
            (child,),
        )
        settling = Waiting(lambda: store.db.run("settle.edges", ended=ended, limit=1))
        until_blocked(postgres_dsn, settling)
        linker.commit()
        assert settling.result() == [(parent, child, None, None)], "found, and not consumed"
    store.db.run("link.mark", edges=mark)
    assert [row[1] for row in store.db.run("settle.edges", ended=ended, limit=9) if row[2]] == children[
        PAGE + 1 :
    ]


def test_nobody_waits_for_an_instance_that_is_at_it(postgres_dsn: str, store: Store, stores: Open) -> None:
    parent, _ = half_settled(store)
    other = stores(postgres_dsn)

    def look(tx: object) -> bool:
        assert tx.run("settle.take", first=parent, last=parent, limit=9)  # type: ignore[attr-defined]
        return Waiting(lambda: other.dependencies.settle(1)).result(PATIENCE)

    assert store.db.transact(look) is False


@pytest.mark.parametrize(("seconds", "told"), [(60, [LATER]), (-1, [])])
def test_upkeep_is_told_of_what_is_left_if_it_waits(
    store: Store, heard: Callable[[], list[str]], seconds: float, told: list[str]
) -> None:
    store.db.wait([LATER], seconds)
    store.db.wait(["other"], 60)
    store.db.run(
        "settle.leave", ended=json.dumps([{"id": SMALLEST, "state": "completed", "after": SMALLEST}])
    )
    assert heard() == told
