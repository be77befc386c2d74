"""What an actor that hides payload is shown: how jobs are doing, and nothing of what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.control.anna import Belongings, belongings
from tests.control.calls import CALLS
from windlass import App
from windlass.control.actor import ADMIN, Actor
from windlass.control.service import Control
from windlass.errors import NotAllowedError, WindlassError
from windlass.features import Store
from windlass.model import Flow, JobLimit, NewJob
from windlass.model.principal import Principal

CANARY = "canary-2c9e"
FILTER = f'state:failed args.text:{CANARY} -args.text:x,"{CANARY} too" key:invoice-7'
SHOWN_FILTER = 'state:failed args.text:"***" -args.text:"***" key:invoice-7'
BOSS = Principal("boss", roles=frozenset({ADMIN}))
WATCHER = Actor.of(BOSS, hides_payload=True)


@dataclass
class World:
    """An app, what belongs to Anna, and an operation of the application."""

    app: App
    annas: Belongings
    operation: str

    @property
    def failed(self) -> str:
        return self.annas.failed


@pytest.fixture(scope="module")
def world(open_shared: Callable[[], Store]) -> Iterator[World]:
    """What belongs to Anna with the canary in its payload, a schedule and an edit, and an operation on the jobs whose argument is the canary."""
    store = open_shared()
    app = App(store=store)

    @app.job
    def welcome(text: str) -> None: ...

    app.schedule("nightly", "welcome", every=timedelta(days=1), args={"text": CANARY})
    with app, belongings(app, store, CANARY, reason="mended") as annas:
        app.sync()
        boss = app.acting_as(BOSS)
        version = boss.jobs.get(annas.queued).version
        boss.jobs.edit(annas.queued, version=version, arguments={"text": f"{CANARY}-2"})
        yield World(app, annas, boss.jobs.retry_many(FILTER, reason="mended").id)


@pytest.mark.parametrize("name", CALLS)
def test_no_call_shows_payload(world: World, name: str) -> None:
    if name.partition(".")[2] in ("delete", "remove", "retry", "cancel"):
        return  # they end what others read; they return no job, or one that passes the same function
    shown = _said(world, world.app.acting_as(WATCHER), name)
    assert CANARY not in shown, name


@pytest.mark.parametrize("name", ["jobs.get", "jobs.list", "jobs.timeline", "jobs.logs", "jobs.progress", "jobs.outputs", "jobs.why", "jobs.stack", "jobs.events", "failures.list", "schedules.list", "audit.list", "operations.get", "operations.list", "operations.handle", "operations.wait"])  # fmt: skip
def test_the_same_calls_show_payload_to_others(world: World, name: str) -> None:
    assert CANARY in _said(world, world.app.acting_as(BOSS), name)


def test_states_and_types_of_errors_are_shown(world: World) -> None:
    job = world.app.acting_as(WATCHER).jobs.get(world.failed)
    assert job.state == "failed" and job.error == {"type": "ValueError", "code": "bad", "message": "***"}
    assert job.args == {} and job.kind == "welcome" and job.attempt == 1
    assert "ValueError" in world.app.acting_as(WATCHER).jobs.why(world.failed).sentence


def test_payload_cannot_be_searched(world: World) -> None:
    service = world.app.acting_as(WATCHER)
    for call in (
        lambda: service.jobs.list(f"args.text:{CANARY}"),
        lambda: service.jobs.count(f"args.text:{CANARY}"),
        lambda: service.jobs.cancel_many(f"args.text:{CANARY}", reason="no"),
    ):
        with pytest.raises(NotAllowedError, match=r"args\.text"):
            call()
    with pytest.raises(NotAllowedError, match="windlass:view-payload"):
        service.jobs.logs(world.failed)


def test_the_filter_of_an_operation_is_shown_without_arguments(world: World) -> None:
    watcher, boss = world.app.acting_as(WATCHER), world.app.acting_as(BOSS)
    listed, annas = watcher.operations.list().operations
    assert annas.filter == 'state:failed kind:nothing args.text:"***"'
    assert listed.filter == watcher.operations.get(world.operation).filter == SHOWN_FILTER
    assert boss.operations.get(world.operation).filter == FILTER
    for service, shown in ((watcher, SHOWN_FILTER), (boss, FILTER)):
        records = service.audit.list(target="operation", name=world.operation).records
        assert records[-1].act == "operation.start" and records[-1].after["filter"] == shown


def test_a_limit_key_is_not_shown_as_it_is_a_value_of_arguments(store: Store) -> None:
    app = App(store=store)
    limits = [JobLimit(phase="welcome", key=CANARY, limit=1)]
    store.limits.define([Flow(phase="welcome", limit=1, limit_key="args.text")])
    first, second = (
        made.id for made in store.enqueue([NewJob(kind="welcome", limits=limits) for _ in range(2)])
    )
    store.join().claim_one(first)
    for who, is_shown in ((BOSS, True), (WATCHER, False)):
        why = app.acting_as(who).jobs.why(second)
        assert why.code == "limit" and (CANARY in _text(why)) is is_shown


def _said(world: World, control: Control, name: str) -> str:
    try:
        found: Any = CALLS[name](control, world.annas)
    except WindlassError as error:
        found = error
    return _text(found)


def _text(value: Any) -> str:
    """Everything that a value has, also in its parts."""
    if isinstance(value, str):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return " ".join(_text(getattr(value, name)) for name in value.__dataclass_fields__)
    if isinstance(value, dict):
        return " ".join(f"{_text(key)} {_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_text, value))
    return f"{value!r} {value}"
