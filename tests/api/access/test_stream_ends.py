"""A stream ends when its caller would be refused: token revoked or expired, session ended, role taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request

from tests.waiting import PATIENCE, eventually
from windlass import App, Principal
from windlass.api import create_api
from windlass.api.server import ApiServer
from windlass.api.streams import response
from windlass.clock import ManualClock
from windlass.features import open_store

pytestmark = [pytest.mark.one_database, pytest.mark.timing]
OWN = {"Sec-Fetch-Site": "same-origin"}
VIEW = {"windlass:view", "windlass:all-jobs"}


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock) -> Iterator[App]:
    with open_store(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as store, App(store=store) as made:
        yield made


@pytest.fixture
def watch(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Opens a stream, sees that it goes on, does something, and sees that the stream ends and that no further one is opened."""
    monkeypatch.setattr(response, "CHECKS_EVERY", 0.05)
    roles = {"carl": set(VIEW)}

    def by_name(request: object) -> Principal | None:
        assert isinstance(request, Request)
        name = request.headers.get("X-User", "")
        return Principal(name, roles=roles[name]) if roles.get(name) else None

    with (
        ApiServer(create_api(app, authenticate=by_name)) as server,
        httpx2.Client(timeout=PATIENCE) as client,
    ):
        server.start()

        def watched(end: Callable[..., object], headers: dict[str, str], sign_in: str = "") -> None:
            if sign_in:
                given = client.post(f"{server.url}/v1/session", json={"token": sign_in}, headers=OWN)
                assert given.status_code == 200
            with client.stream("GET", f"{server.url}/v1/events", headers=headers) as stream:
                lines = stream.iter_lines()
                seen = [next(line for line in lines if line.startswith("data")) for _ in range(2)]
                assert len(seen) == 2
                end(roles, server, client)
                assert sum(1 for line in lines if line.startswith("data")) < 100
            eventually(lambda: not len(server._web.state.streams), "the place is free")
            refused = client.get(f"{server.url}/v1/events", headers=headers)
            assert refused.status_code in (401, 403)

        yield watched


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_it_ends_with_its_token(app: App, clock: ManualClock, watch: Callable[..., None]) -> None:
    watch(lambda *_: app.tokens.revoke("a"), bearer(app.tokens.create("a", ["view"]).text))
    short = app.tokens.create("b", ["view"], lasts=timedelta(seconds=3)).text
    watch(lambda *_: clock.advance(4), bearer(short))


def test_it_ends_with_its_session(app: App, watch: Callable[..., None]) -> None:
    def sign_out(_: object, server: ApiServer, client: httpx2.Client) -> None:
        assert client.delete(f"{server.url}/v1/session", headers=OWN).status_code == 204

    watch(sign_out, {}, app.tokens.create("a", ["view"]).text)
    watch(lambda *_: app.tokens.revoke("b"), {}, app.tokens.create("b", ["view"]).text)


def test_it_ends_with_a_right_that_its_caller_loses(watch: Callable[..., None]) -> None:
    watch(lambda roles, *_: roles.update(carl=set()), {"X-User": "carl"})
