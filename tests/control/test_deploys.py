"""Deploy marks: made by people and scripts, and by workers with another version of the code."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from tests.control.conftest import ANNA, BOSS
from windlass import App, ConfigError
from windlass.audit.deploys import CODE, DEPLOY, note_version
from windlass.audit.record import AuditRecord
from windlass.errors import NotAllowedError
from windlass.features import Store


def test_a_mark_is_listed_and_audited(app: App) -> None:
    made = app.acting_as(BOSS).deploys.mark("  release 41 ")
    assert (made.text, made.actor, made.is_code) == ("release 41", "boss", False)
    app.deploys.mark("release 42")
    assert [one.text for one in app.deploys.list()] == ["release 42", "release 41"]
    assert [one.text for one in app.deploys.list(limit=1)] == ["release 42"]
    assert app.deploys.list(since=app.store.now() + timedelta(seconds=1)) == []
    (_, record) = app.audit.list(target="deploy").records
    assert (record.act, record.name, record.subject) == ("deploy.mark", "release 41", "boss")


def test_secrets_in_a_mark_are_hidden(app: App) -> None:
    assert "hunter2" not in app.deploys.mark("release 41 password=hunter2").text


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "nul \0", None])
def test_a_mark_that_cannot_be_shown_is_refused(app: App, text: str) -> None:
    with pytest.raises(ConfigError, match="text"):
        app.deploys.mark(text)


def test_marks_concern_all(app: App) -> None:
    for call in (lambda: app.acting_as(ANNA).deploys.mark("x"), lambda: app.acting_as(ANNA).deploys.list()):
        with pytest.raises(NotAllowedError):
            call()


def test_only_a_change_of_the_version_is_marked(app: App) -> None:
    db = app.store.db
    assert note_version(db, "v1", [])
    assert not note_version(db, "v1", []), "the same code starts again"
    app.deploys.mark("release 42")
    assert note_version(db, "v2", ["v1", "v1"])
    assert not note_version(db, "v1", ["v1", "v2"]), (
        "a worker of the old version starts while the fleet is replaced"
    )
    assert not note_version(db, "v2", ["v1", "v2"])
    assert note_version(db, "v1", ["v2"]), "back to the old version"
    marks = [(one.text, one.is_code) for one in app.deploys.list()]
    assert marks == [("v1", True), ("v2", True), ("release 42", False), ("v1", True)]


def test_of_two_workers_that_start_at_once_one_is_shown(app: App) -> None:
    for _ in range(2):  # each reads before the other has written
        record = AuditRecord(actor="system", act=CODE, target=DEPLOY, name="v1")
        app.store.db.transact(partial(app.store.audit.write, record=record))
    assert [one.text for one in app.deploys.list()] == ["v1"]


def test_a_worker_marks_its_version(store_url: str, stores: Callable[[str], Store]) -> None:
    store = stores(store_url)
    for version in ("v1", "v1", "v2"):
        app = App(store=store, config={"worker.version": version})
        app.job(name="welcome")(lambda: None)
        worker = app.worker()
        worker.start()
        (info,) = [one.info for one in app.store.instances.list() if one.id == worker.id]
        assert info["version"] == version
        worker.stop()
    assert [(one.text, one.actor) for one in App(store=store).deploys.list()] == [
        ("v2", "system"),
        ("v1", "system"),
    ]
