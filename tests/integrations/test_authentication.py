"""Bearer tokens in FastAPI, Flask and Django: jobs have the principal of their request, and no other request's."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import httpx2
import psycopg
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, WebSocket, WebSocketDisconnect
from fastapi.testclient import TestClient
from flask import Flask, g

from tests.principals.tokens import signed, verifier
from tests.servers.plugin import FreshPostgres
from tests.transactions import django_project as django_project  # configures Django
from tests.waiting import PATIENCE
from windlass.app.app import App
from windlass.app.kinds import JobKind
from windlass.errors import ConfigError
from windlass.integrations.django.bearer import Bearer as DjangoBearer
from windlass.integrations.fastapi.bearer import Bearer as FastapiBearer
from windlass.integrations.flask.bearer import Bearer as FlaskBearer
from windlass.model.principal import Principal

Kind = JobKind[..., Any, ..., Any]
ANA, BEN = ({"Authorization": f"Bearer {signed(sub=name)}"} for name in ("ana", "ben"))
TWICE_OR_MALFORMED = (
    ["Basic dTpw", ANA["Authorization"]],
    [ANA["Authorization"], "Basic dTpw"],
    ["Basic dTpw", "Basic dTpw"],
    ["", ANA["Authorization"]],
    [""],
    ["Basic"],
)


@pytest.fixture(params=["sqlite", "postgresql"])
def jobs(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, sqlite_path: Path) -> Iterator[App]:
    made = App(f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres())
    made.store.now()  # the tables are there
    yield made
    made.close()


@pytest.fixture
def report(jobs: App) -> Kind:
    @jobs.job(name="report")
    def report(n: int = 0) -> None: ...

    return report


def owner(jobs: App, job_id: str) -> str | None:
    captured = jobs.store.principals.get(job_id)
    return None if captured is None else captured.principal.subject


# ---------------------------------------------------------------------- FastAPI


def fastapi_application(jobs: App, report: Kind) -> FastAPI:
    signed_in, optional = (
        FastapiBearer(jobs, verifier(), optional=is_optional) for is_optional in (False, True)
    )
    web = FastAPI()
    User = Annotated[Principal, Depends(signed_in)]  # noqa: N806  a type

    @web.post("/plain")
    def plain(user: User) -> dict[str, str]:
        return {"job": report.enqueue().id, "user": user.subject}

    @web.post("/async")
    async def coroutine(user: User) -> dict[str, str]:
        return {"job": (await report.enqueue_async()).id, "user": user.subject}

    @web.post("/in")
    def in_a_transaction(user: User) -> dict[str, str]:
        with opened(jobs.url) as connection:
            made = report.enqueue_in(connection)
            connection.commit()
        return {"job": made.id, "user": user.subject}

    @web.post("/optional")
    def maybe(user: Annotated[Principal | None, Depends(optional)]) -> dict[str, str]:
        return {"job": report.enqueue().id, "user": user.subject if user else "nobody"}

    @web.post("/open")
    def anyone() -> dict[str, str]:
        return {"job": report.enqueue().id}

    return web


@contextmanager
def opened(url: str) -> Iterator[Any]:
    """A connection of the application's own, in a transaction."""
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            yield connection
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            file.execute("BEGIN IMMEDIATE")
            yield file


@pytest.mark.parametrize("path", ["/plain", "/async", "/in", "/optional"])
def test_fastapi_jobs_have_the_principal_of_the_request(jobs: App, report: Kind, path: str) -> None:
    with TestClient(fastapi_application(jobs, report)) as client:
        for headers, name in ((ANA, "ana"), (BEN, "ben")):
            found = client.post(path, headers=headers).json()
            assert found["user"] == name and owner(jobs, found["job"]) == name
        assert owner(jobs, client.post("/open").json()["job"]) is None, (
            "nothing is left of the requests before"
        )


def test_fastapi_refuses_without_the_token(jobs: App, report: Kind) -> None:
    with TestClient(fastapi_application(jobs, report)) as client:
        missing = client.post("/plain")
        assert missing.status_code == 401
        assert missing.headers["WWW-Authenticate"] == 'Bearer realm="api"'
        assert missing.json()["detail"]["code"] == "token_missing"
        late = signed(exp=1)
        refused = client.post("/optional", headers={"Authorization": f"Bearer {late}"})
        assert (refused.status_code, refused.json()["detail"]["code"]) == (401, "token_expired")
        assert late not in refused.text and late not in str(refused.headers)
        twice = client.post("/plain", headers=[*ANA.items(), *BEN.items()])
        assert twice.json()["detail"]["code"] == "token_malformed"
        for sent in TWICE_OR_MALFORMED:
            both = client.post("/optional", headers=[("Authorization", value) for value in sent])
            assert (both.status_code, both.json()["detail"]["code"]) == (401, "token_malformed"), sent
        assert client.post("/optional").json()["user"] == "nobody"
        schema = client.get("/openapi.json").json()
        assert schema["components"]["securitySchemes"]["Bearer"]["scheme"] == "bearer"
        assert schema["paths"]["/plain"]["post"]["security"] == [{"Bearer": []}]
    assert len(jobs.store.jobs.list().jobs) == 1


def test_a_plain_generator_dependency_of_ones_own_says_what_to_use(jobs: App) -> None:
    """FastAPI enters and leaves it in threads, each with a copy of the request's context: the route sees nothing of it."""
    web = FastAPI()
    seen: list[bool] = []

    def own() -> Iterator[None]:
        with jobs.as_principal(Principal("ana")):
            yield

    @web.post("/", dependencies=[Depends(own)])
    def route() -> None:
        seen.append(jobs.parts.authority._asker.get() is not None)

    with (
        pytest.raises(ConfigError, match=r"windlass\.integrations\.fastapi\.bearer"),
        TestClient(web) as client,
    ):
        client.post("/")
    assert seen == [False]


def test_requests_of_two_users_at_once_keep_their_jobs_apart(jobs: App, report: Kind) -> None:
    """Plain routes in the thread pool and coroutines on the loop, all of them inside their route at the same time."""
    signed_in = FastapiBearer(jobs, verifier())
    web = FastAPI()
    inside = threading.Barrier(6)

    @web.post("/plain")
    def plain(user: Annotated[Principal, Depends(signed_in)]) -> list[str]:
        inside.wait(PATIENCE)
        return [user.subject, report.enqueue().id]

    @web.post("/async")
    async def coroutine(user: Annotated[Principal, Depends(signed_in)]) -> list[str]:
        await asyncio.sleep(0)
        return [user.subject, (await report.enqueue_async()).id]

    async def ask() -> list[Any]:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(web), base_url="http://test") as client:
            calls = [
                client.post(path, headers=headers)
                for path in ("/plain", "/async")
                for headers in [ANA, BEN] * 3
            ]
            return [answer.json() for answer in await asyncio.gather(*calls)]

    found = asyncio.run(ask())
    assert [user for user, _ in found] == ["ana", "ben"] * 6
    assert [owner(jobs, job) for _, job in found] == ["ana", "ben"] * 6


def test_a_background_task_and_a_websocket_have_the_principal(jobs: App, report: Kind) -> None:
    signed_in = FastapiBearer(jobs, verifier())
    web = FastAPI()
    made: list[str] = []

    @web.post("/later")
    def later(tasks: BackgroundTasks, user: Annotated[Principal, Depends(signed_in)]) -> None:
        tasks.add_task(lambda: made.append(report.enqueue().id))

    @web.websocket("/socket")
    async def socket(socket: WebSocket, user: Annotated[Principal, Depends(signed_in)]) -> None:
        await socket.accept()
        made.append((await report.enqueue_async()).id)
        await socket.send_text(user.subject)

    with TestClient(web) as client:
        client.post("/later", headers=ANA)
        with client.websocket_connect("/socket", headers=BEN) as open_socket:
            assert open_socket.receive_text() == "ben"
        with pytest.raises(WebSocketDisconnect) as caught, client.websocket_connect("/socket"):
            raise AssertionError("it must not open")
    assert (caught.value.code, caught.value.reason) == (1008, "token_missing")
    assert [owner(jobs, job) for job in made] == ["ana", "ben"]


# ---------------------------------------------------------------------- Flask


def flask_application(jobs: App, report: Kind) -> Flask:
    signed_in, optional = (
        FlaskBearer(jobs, verifier(), optional=is_optional) for is_optional in (False, True)
    )
    web = Flask("shop")

    @web.post("/plain")
    @signed_in
    def plain() -> dict[str, str]:
        return {"job": report.enqueue().id, "user": g.principal.subject}

    @web.post("/optional")
    @optional
    def maybe() -> dict[str, str]:
        return {"job": report.enqueue().id, "user": g.principal.subject if g.principal else "nobody"}

    @web.post("/open")
    def anyone() -> dict[str, str]:
        return {"job": report.enqueue().id}

    @web.post("/async")
    @signed_in
    async def coroutine() -> dict[str, str]:
        return {"job": (await report.enqueue_async()).id, "user": g.principal.subject}

    return web


@pytest.mark.parametrize("path", ["/plain", "/async", "/optional"])
def test_flask_jobs_have_the_principal_of_the_request(jobs: App, report: Kind, path: str) -> None:
    client = flask_application(jobs, report).test_client()
    for headers, name in ((ANA, "ana"), (BEN, "ben")):
        found = client.post(path, headers=headers).get_json()
        assert found["user"] == name and owner(jobs, found["job"]) == name
    assert owner(jobs, client.post("/open").get_json()["job"]) is None


def test_flask_refuses_without_the_token(jobs: App, report: Kind) -> None:
    client = flask_application(jobs, report).test_client()
    for path in ("/plain", "/async"):
        missing = client.post(path)
        assert missing.status_code == 401
        assert missing.headers["WWW-Authenticate"] == 'Bearer realm="api"'
        assert missing.get_json()["code"] == "token_missing"
    late = signed(exp=1)
    refused = client.post("/optional", headers={"Authorization": f"Bearer {late}"})
    assert (refused.status_code, refused.get_json()["code"]) == (401, "token_expired")
    assert late not in refused.text and late not in str(refused.headers)
    for sent in TWICE_OR_MALFORMED:
        both = client.post("/optional", headers=[("Authorization", value) for value in sent])
        assert (both.status_code, both.get_json()["code"]) == (401, "token_malformed"), sent
    assert client.post("/optional").get_json()["user"] == "nobody"
    assert len(jobs.store.jobs.list().jobs) == 1


# ---------------------------------------------------------------------- Django


def django_views(jobs: App, report: Kind, **options: Any) -> dict[str, Callable[..., Any]]:
    from django.http import HttpRequest, JsonResponse

    signed_in = DjangoBearer(jobs, verifier(), **options)

    def answer(request: HttpRequest, job_id: str) -> JsonResponse:
        return JsonResponse(
            {"job": job_id, "user": request.principal.subject if request.principal else "nobody"}
        )

    @signed_in
    def plain(request: HttpRequest, n: int) -> JsonResponse:
        return answer(request, report.enqueue(n).id)

    @signed_in
    async def coroutine(request: HttpRequest, n: int) -> JsonResponse:
        return answer(request, (await report.enqueue_async(n)).id)

    def bare(request: HttpRequest, n: int) -> JsonResponse:
        return answer(request, report.enqueue(n).id)

    async def bare_async(request: HttpRequest, n: int) -> JsonResponse:
        return answer(request, (await report.enqueue_async(n)).id)

    return {"plain": plain, "async": coroutine, "bare": bare, "bare_async": bare_async}


@pytest.fixture
def django_site(jobs: App, report: Kind, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A project whose middleware is optional, and whose views require a token or not."""
    from django.test import override_settings
    from django.urls import path

    views = django_views(jobs, report)
    site: Any = ModuleType("authenticated_site")
    site.urlpatterns = [path(f"{name}/<int:n>", view) for name, view in views.items()]
    site.optional = DjangoBearer(jobs, verifier(), optional=True)
    monkeypatch.setitem(sys.modules, "authenticated_site", site)
    with override_settings(
        ROOT_URLCONF="authenticated_site",
        MIDDLEWARE=["authenticated_site.optional"],
        ALLOWED_HOSTS=["*"],
    ):
        yield


@pytest.mark.parametrize("view", ["plain", "async", "bare", "bare_async"])
@pytest.mark.parametrize("server", ["wsgi", "asgi"])
def test_django_jobs_have_the_principal_of_the_request(
    jobs: App, django_site: None, view: str, server: str
) -> None:
    """By the decorator and by the middleware; sync and async views, under both kinds of servers."""
    from django.test import AsyncClient, Client

    def ask(**headers: str) -> Any:
        if server == "wsgi":
            return Client().post(f"/{view}/7", headers=headers)
        return asyncio.run(AsyncClient().post(f"/{view}/7", headers=headers))

    for headers, name in ((ANA, "ana"), (BEN, "ben")):
        found = ask(**headers).json()
        assert found["user"] == name and owner(jobs, found["job"]) == name
    without = ask()
    if view.startswith("bare"):
        assert without.json()["user"] == "nobody" and owner(jobs, without.json()["job"]) is None
    else:
        assert without.status_code == 401 and without.json()["code"] == "token_missing"
        assert without.headers["WWW-Authenticate"] == 'Bearer realm="api"'
    for sent in TWICE_OR_MALFORMED:  # Django and its servers join headers with a comma
        both = ask(Authorization=",".join(sent))
        assert (both.status_code, both.json()["code"]) == (401, "token_malformed"), sent
    late = signed(exp=1)
    refused = ask(Authorization=f"Bearer {late}")
    assert (refused.status_code, refused.json()["code"]) == (401, "token_expired")
    assert late not in refused.content.decode() and late not in str(refused.headers)


def test_threads_of_a_wsgi_server_keep_users_apart(jobs: App, report: Kind) -> None:
    """A thread that served one user serves the next."""
    client = flask_application(jobs, report)

    def ask(headers: dict[str, str] | None) -> str | None:
        path = "/plain" if headers else "/open"
        return owner(jobs, client.test_client().post(path, headers=headers).get_json()["job"])

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(ask, [ANA, BEN, None] * 4))
    assert found == ["ana", "ben", None] * 4
