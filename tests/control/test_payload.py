"""What an actor that hides payload is shown: how jobs are doing, and nothing of what is in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.control.test_scope_matrix import CALLS
from windlass import App
from windlass.control.actor import ADMIN, Actor
from windlass.control.service import Control
from windlass.errors import NotAllowedError, WindlassError
from windlass.features import Store
from windlass.job_logs.lines import LogLine, Pending
from windlass.model import JobError, NewJob
from windlass.model.principal import Principal

CANARY = "canary-2c9e"
BOSS = Principal("boss", roles=frozenset({ADMIN}))
WATCHER = Actor.of(BOSS, hides_payload=True)


@dataclass
class World:
    app: App
    failed: str
    queued: str
    operation: str


@pytest.fixture(scope="module")
def world(open_shared: Callable[[], Store]) -> World:
    """A job that failed with the canary in its arguments, error, position and log, one that is queued, a schedule and an edit."""
    store = open_shared()
    app = App(store=store)

    @app.job
    def welcome(text: str) -> None: ...

    app.schedule("nightly", "welcome", every=timedelta(days=1), args={"text": CANARY})
    app.sync()
    failed, queued = (
        made.id for made in store.enqueue([NewJob(kind="welcome", args={"text": CANARY}) for _ in range(2)])
    )
    holder = store.join()
    lease = holder.claim_one(failed)
    assert lease is not None
    holder.checkpoint(lease, done=1, total=2, position={"at": CANARY})
    pending = Pending(1, "welcome")
    pending.add(LogLine(store.now(), "INFO", "tests", CANARY))
    store.logs.put({(failed, lease.token): pending})
    error = JobError(type="ValueError", code="bad", message=CANARY, traceback=f"line: {CANARY}")
    holder.fail(lease, error)
    boss = app.acting_as(BOSS)
    boss.jobs.edit(queued, version=boss.jobs.get(queued).version, arguments={"text": f"{CANARY}-2"})
    operation = boss.jobs.retry_many("state:failed kind:nothing", reason="mended")
    return World(app, failed, queued, operation.id)


@pytest.mark.parametrize("name", CALLS)
def test_no_call_shows_payload(world: World, name: str) -> None:
    if name.partition(".")[2] in ("delete", "remove", "retry", "cancel", "wait", "examine"):
        return  # they end what others read; they return no job, or one that passes the same function
    shown = _said(world, world.app.acting_as(WATCHER), name)
    assert CANARY not in shown, name


@pytest.mark.parametrize("name", ["jobs.get", "jobs.list", "jobs.timeline", "jobs.logs", "jobs.why", "jobs.events", "failures.list", "schedules.list", "audit.list"])  # fmt: skip
def test_the_same_calls_show_payload_to_others(world: World, name: str) -> None:
    assert CANARY in _said(world, world.app.acting_as(BOSS), name.replace("jobs.why", "jobs.get"))


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


def _said(world: World, control: Control, name: str) -> str:
    try:
        found: Any = CALLS[name](control, world)  # type: ignore[arg-type]
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
