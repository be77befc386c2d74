"""A read that takes too long is ended by the database, and its problem proposes a narrower filter; nothing else has a limit."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from tests.api.conftest import by_header
from tests.waiting import eventually
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.errors import StoreInterruptedError
from windlass.store.postgres import transaction
from windlass.store.read_time import reads_within
from windlass.store.schema.statements import Statement, Verb
from windlass.store.sqlite import database

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n WHERE i < 0"
SLOW = "SELECT count(*) FROM (SELECT pg_sleep(0.3)) AS s"


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the page of a list take for ever."""
    verb = Verb("search.scan", "", (Statement(ENDLESS, frozenset()),))
    monkeypatch.setitem(database.STATEMENTS, "search.scan", verb)
    monkeypatch.setitem(transaction.STATEMENTS, "search.scan", [(ENDLESS.encode(), frozenset())])


@pytest.mark.usefixtures("endless")
def test_an_endless_read_is_ended_and_a_narrower_filter_proposed(app: App) -> None:
    api = create_api(app, settings=ApiSettings(read_timeout=0.2), authenticate=by_header)
    with TestClient(api, headers={"X-Caller": "boss"}) as client:
        refused = client.get("/v1/jobs")
        assert (refused.status_code, refused.json()["code"]) == (503, "statement-timeout")
        assert "narrower filter" in refused.json()["detail"] and refused.headers["Retry-After"] == "1"
        made = client.post("/v1/jobs", json={"kind": "welcome"}).json()["id"]
        # On a busy machine this read may take too long, too.
        eventually(lambda: client.get(f"/v1/jobs/{made}").json().get("state") == "queued")
    assert app.store.jobs.get(made).kind == "welcome"


def test_a_limit_ends_with_its_block(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of a read that was ended has no limit for the next one."""
    monkeypatch.setitem(transaction.STATEMENTS, "counts", [(SLOW.encode(), frozenset())])
    verb = Verb(
        "counts", "", (Statement(ENDLESS.replace("FROM n)", "FROM n WHERE i < 3000000)"), frozenset()),)
    )
    monkeypatch.setitem(database.STATEMENTS, "counts", verb)
    for _ in range(3):
        with reads_within(0.01), pytest.raises(StoreInterruptedError):
            app.store.db.read("counts")
        assert app.store.db.read("counts") in ([(0,)], [(1,)])
    with reads_within(60):
        assert app.store.db.read("counts")
