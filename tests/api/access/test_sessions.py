"""Sessions of browsers: the one-time link, signing in with a token, the cookie, and its end."""

from __future__ import annotations

import logging
import re

import pytest
from fastapi.testclient import TestClient

from tests.api.access.conftest import HOST, Connect
from windlass import App
from windlass.api import ApiSettings
from windlass.api.access.sessions import Sessions

pytestmark = pytest.mark.one_database
OWN = {"Sec-Fetch-Site": "same-origin"}


def code_of(client: TestClient) -> str:
    """The code of a new one-time link of a client's API."""
    link: str = client.app.state.access.one_time_link(HOST)  # type: ignore[attr-defined]
    assert link.startswith(f"{HOST}/login#")
    return link.partition("#")[2]


def sign_in(client: TestClient, **body: str) -> int:
    return client.post("/v1/session", json=body, headers=OWN).status_code


def test_a_one_time_link_signs_in_once(connect: Connect) -> None:
    client = connect()
    assert client.get("/v1/jobs").status_code == 401
    code = code_of(client)
    found = client.post("/v1/session", json={"code": code}, headers=OWN)
    assert found.status_code == 200 and found.json()["how"] == "session" and code not in str(found.headers)
    assert client.get("/v1/jobs").status_code == 200
    client.cookies.clear()
    again = client.post("/v1/session", json={"code": code}, headers=OWN)
    assert again.status_code == 401 and "set-cookie" not in again.headers


def test_a_get_uses_no_link_up_and_sets_no_cookie(connect: Connect) -> None:
    client = connect()
    code = code_of(client)
    for path in ("/login", f"/login?code={code}", "/login.js"):
        found = client.get(path)
        assert found.status_code == 200 and "set-cookie" not in found.headers and code not in found.text
    assert client.get("/v1/jobs").status_code == 401
    assert sign_in(client, code=code) == 200


def test_the_page_allows_no_script_but_its_own(connect: Connect) -> None:
    page = connect().get("/login")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert re.findall(r"<script[^>]*>(.*?)</script>", page.text) == [""]
    assert page.headers["Referrer-Policy"] == "no-referrer" and page.headers["X-Frame-Options"] == "DENY"


def test_the_form_of_the_page_takes_codes_and_tokens(connect: Connect, app: App) -> None:
    client = connect()
    for secret in (code_of(client), app.tokens.create("wall", ["view"]).text):
        found = client.post("/login", data={"secret": secret}, headers=OWN, follow_redirects=False)
        assert found.status_code == 303 and found.headers["location"] == "/"
        assert client.get("/v1/jobs").status_code == 200
        client.cookies.clear()
    refused = client.post("/login", data={"secret": "<script>wrong"}, headers=OWN)
    assert refused.status_code == 401 and "not valid" in refused.text and "<script>wrong" not in refused.text
    assert client.post("/login", data={"secret": "x" * 2000}, headers=OWN).status_code == 413


def test_the_session_of_a_token_has_its_roles_and_ends_with_it(connect: Connect, app: App) -> None:
    client, made = connect(), app.tokens.create("wall", ["view"], subject="anna", tenant="acme")
    assert sign_in(client, token=made.text) == 200
    cookie = next(iter(client.cookies.jar)).value or ""
    assert made.text[36:] not in cookie
    told = client.get("/v1/session").json()
    assert (told["subject"], told["roles"], told["sees"]) == ("anna", ["view"], "own")
    app.tokens.revoke("wall")
    assert client.get("/v1/session").status_code == 401


def test_signing_out_ends_the_session_also_for_a_copy_of_the_cookie(connect: Connect) -> None:
    client = connect()
    assert sign_in(client, code=code_of(client)) == 200
    copy = {one.name: one.value for one in client.cookies.jar}
    assert client.delete("/v1/session", headers=OWN).status_code == 204
    assert client.get("/v1/session").status_code == 401
    for name, value in copy.items():
        client.cookies.set(name, value or "", domain="127.0.0.1")
    assert client.get("/v1/session").status_code == 401


@pytest.mark.parametrize("body", [{}, {"code": "a", "token": "b"}, {"code": 7}, {"password": "x"}])
def test_other_bodies_are_refused(connect: Connect, body: dict[str, object]) -> None:
    found = connect().post("/v1/session", json=body, headers=OWN)
    assert found.status_code == 422 and found.json()["errors"]


def test_a_wrong_code_or_token_is_refused_without_saying_why(connect: Connect, app: App) -> None:
    client = connect()
    details = {
        client.post("/v1/session", json=body, headers=OWN).json()["detail"]
        for body in (
            {"code": "x"},
            {"code": "\ud800x"},
            {"token": "wl_x"},
            {"token": f"wl_{'0' * 32}_{'a' * 43}"},
        )
        if body != {"code": "\ud800x"}
    }
    assert len(details) == 1


@pytest.mark.parametrize(
    ("host", "is_secure", "name"),
    [
        ("http://127.0.0.1:8080", False, "windlass_session_8080"),
        ("http://localhost:9000", False, "windlass_session_9000"),
        ("https://jobs.example", True, "windlass_session"),
        ("http://jobs.example", True, "windlass_session"),
        ("https://[::1]:8443", True, "windlass_session_8443"),
    ],
)
def test_the_cookie_is_closed_to_scripts_and_to_plain_http(
    connect: Connect, host: str, is_secure: bool, name: str
) -> None:
    client = connect(host=host)
    found = client.post("/v1/session", json={"code": code_of(client)}, headers=OWN)
    cookie = found.headers["set-cookie"]
    assert cookie.startswith(f"{name}=") and "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert "Path=/;" in cookie + ";" and ("Secure" in cookie) == is_secure


def test_a_changed_cookie_is_no_session(connect: Connect) -> None:
    client = connect()
    assert sign_in(client, code=code_of(client)) == 200
    ((name, value),) = [(one.name, one.value or "") for one in client.cookies.jar]
    body, _, signature = value.partition(".")
    wrong = [
        f"{body}.{'0' * 64}", f"{body}.", body, f"{body[:-2]}AA.{signature}", f".{signature}", "a.b.c", "x" * 5000,
        Sessions(None, 60)._signature(body).join((f"{body}.", "")),
    ]  # fmt: skip
    for cookie in wrong:
        client.cookies.clear()
        assert client.get("/v1/session", headers={"Cookie": f"{name}={cookie}"}).status_code == 401, cookie


def test_servers_with_the_same_secret_share_sessions(connect: Connect) -> None:
    one, two, other = (connect(ApiSettings(session_secret=secret * 32)) for secret in "aab")
    assert sign_in(one, code=code_of(one)) == 200
    cookie = "; ".join(f"{item.name}={item.value}" for item in one.cookies.jar)
    assert two.get("/v1/session", headers={"Cookie": cookie}).status_code == 200
    assert other.get("/v1/session", headers={"Cookie": cookie}).status_code == 401
    assert "aaaa" not in repr(ApiSettings(session_secret="a" * 32))


def test_sessions_and_links_end() -> None:
    now = [1000.0]
    sessions = Sessions(None, 60, now=lambda: now[0])
    code = sessions.new_code()
    now[0] += 3600
    assert not sessions.take_code(code)
    codes = [sessions.new_code() for _ in range(200)]
    assert sessions.take_code(codes[-1]) and len(sessions._links) < 200


def test_a_mounted_api_keeps_its_cookie_to_its_path(app: App, caplog: pytest.LogCaptureFixture) -> None:
    from fastapi import FastAPI

    from windlass.api import create_api

    api, web = create_api(app), FastAPI()
    web.mount("/jobs", api)
    client = TestClient(web, base_url=HOST)
    with caplog.at_level(logging.DEBUG):
        code = api.state.access.sessions.new_code()
        found = client.post("/jobs/v1/session", json={"code": code}, headers=OWN)
    assert found.status_code == 200 and "Path=/jobs/" in found.headers["set-cookie"]
    assert client.get("/jobs/v1/jobs").status_code == 200 and code not in caplog.text
