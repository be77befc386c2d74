"""Requests that a page of another site makes a browser send."""

from __future__ import annotations

import pytest

from tests.api.access.conftest import HOST, Connect, bearer
from tests.api.access.test_sessions import OWN, code_of, sign_in
from windlass import App
from windlass.api import ApiSettings
from windlass.api.access.caller import LOCAL

pytestmark = pytest.mark.one_database

FOREIGN: dict[str, dict[str, str]] = {
    "cross-site": {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    "another port of this machine": {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"},
    "from nowhere": {"Sec-Fetch-Site": "none"},
    "a word of tomorrow": {"Sec-Fetch-Site": "friendly"},
    "own origin, but cross-site": {"Sec-Fetch-Site": "cross-site", "Origin": HOST},
    "old browser": {"Origin": "https://evil.example"},
    "old browser, another port": {"Origin": "http://127.0.0.1:9999"},
    "old browser, sandboxed page": {"Origin": "null"},
    "name that begins alike": {"Origin": f"{HOST}.evil.example"},
}
OWN_PAGES = {"today": OWN, "old browser": {"Origin": HOST}}
WAYS = ("session", "function", "no-auth")


def signed_in(connect: Connect, way: str):
    """A client with each kind of credentials that a browser adds by itself."""
    if way == "session":
        client = connect()
        assert sign_in(client, code=code_of(client)) == 200
        return client
    if way == "function":
        return connect(authenticate=lambda request: LOCAL if request.cookies else None, Cookie="user=7")
    return connect(ApiSettings(no_auth=True))


@pytest.mark.parametrize("way", WAYS)
def test_writes_of_other_sites_are_refused_and_reads_are_not(connect: Connect, way: str) -> None:
    client = signed_in(connect, way)
    for name, headers in FOREIGN.items():
        found = client.delete("/v1/session", headers=headers)
        assert found.status_code == 403 and found.json()["code"] == "cross-site", name
        assert client.get("/v1/session", headers=headers).status_code == 200, name
        assert "access-control-allow-origin" not in found.headers
    if way != "no-auth":
        assert client.delete("/v1/session").status_code == 403, "a browser says where a request comes from"
    for name, headers in OWN_PAGES.items():
        assert signed_in(connect, way).delete("/v1/session", headers=headers).status_code == 204, name


def test_signing_in_for_another_site_is_refused(connect: Connect) -> None:
    for headers in FOREIGN.values():
        client = connect()
        code = code_of(client)
        assert client.post("/v1/session", json={"code": code}, headers=headers).status_code == 403
        assert client.post("/login", data={"secret": code}, headers=headers).status_code == 403
        assert sign_in(client, code=code) == 200, "the code was not used up"


def test_bearers_need_no_check_since_no_page_can_send_them(connect: Connect, app: App) -> None:
    client, text = connect(), app.tokens.create("script", ["view"]).text
    for headers in FOREIGN.values():
        assert client.delete("/v1/session", headers={**headers, **bearer(text)}).status_code == 204


def test_a_wrong_bearer_is_not_replaced_by_a_cookie(connect: Connect) -> None:
    client = signed_in(connect, "session")
    assert client.get("/v1/session").status_code == 200
    assert client.get("/v1/session", headers=bearer("wrong")).status_code == 401
