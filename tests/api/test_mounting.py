"""The examples of the guides that mount the API in an application with its own users, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient

from tests.integrations.running import run
from windlass import App, Principal
from windlass.api import create_api

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
pytestmark = pytest.mark.one_database

SETTINGS = """
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "windlass.integrations.django"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
ROOT_URLCONF = "shop.urls"
SECRET_KEY = "of-a-test"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
"""
URLS = """
from django.contrib.auth import authenticate, login
from django.http import HttpResponse
from django.urls import path

def sign_in(request):
    user = authenticate(request, username=request.POST["name"], password=request.POST["password"])
    if user is not None:
        login(request, user)
    return HttpResponse(status=204 if user else 403)

urlpatterns = [path("sign-in", sign_in), path("", lambda request: HttpResponse(f"the shop at {request.path}"))]
"""
JOBS = """
from windlass.integrations.django import app as jobs

@jobs.job
def welcome(user_id: int) -> None: ...
"""
USE = """
from io import StringIO
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
from asgi import application
from django.contrib.auth.models import User
from django.core.management import call_command
from starlette.testclient import TestClient
from shop.jobs import jobs, welcome
from windlass import Principal

call_command("migrate", stdout=StringIO())
anna = User.objects.create_user("anna", password="a")
boss = User.objects.create_user("boss", password="b", is_staff=True)
for name in (str(anna.pk), "another"):
    welcome.options(principal=Principal(name), correlation_id=f"of {name}").enqueue(user_id=1)
OWN = {"Sec-Fetch-Site": "same-origin"}

def seen(client, **headers):
    found = client.get("/jobs/v1/jobs", headers={**OWN, **headers})
    return found.status_code, [one["correlation_id"] for one in found.json().get("jobs", ())]

def signed_in(name, password):
    client = TestClient(application)
    assert client.post("/sign-in", data={"name": name, "password": password}).status_code == 204
    return client

print("pages", TestClient(application).get("/").text)
print("nobody", seen(TestClient(application)))
client = signed_in("anna", "a")
print("anna", seen(client))
print("acts", client.post("/jobs/v1/jobs/none/cancel", json={"reason": "r"}, headers=OWN).status_code)
staff = signed_in("boss", "b")
print("other site", staff.post("/jobs/v1/jobs/none/cancel", json={"reason": "r"}, headers={"Sec-Fetch-Site": "cross-site"}).status_code)
print("boss", len(seen(staff)[1]))
print("acts", staff.post("/jobs/v1/jobs/none/cancel", json={"reason": "r"}, headers=OWN).status_code)
link = staff.get("/jobs/v1/jobs?limit=1", headers=OWN).links["next"]["url"]
print("next", staff.get(link, headers=OWN).status_code, link.split("?")[0])
anna.set_password("new")
anna.save()
print("old password", seen(client)[0])
client = signed_in("anna", "new")
User.objects.filter(pk=anna.pk).update(is_active=False)
print("not active", seen(client)[0])
print("wrong", seen(TestClient(application, cookies={"sessionid": "x" * 32}))[0])
jobs.close()
"""
SEEN = """
pages the shop at /
nobody (401, [])
anna (200, ['of 1'])
acts 403
other site 403
boss 2
acts 404
next 200 /jobs/v1/jobs
old password 401
not active 401
wrong 401
"""


def block(guide: str, beginning: str) -> str:
    """The code of a guide that begins with a line."""
    found = re.findall(
        r"^```python\n(.*?)^```$", (GUIDES / guide).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    (wanted,) = [str(code) for code in found if code.startswith(beginning)]
    return wanted


@pytest.mark.slow
def test_a_django_project_serves_the_api_to_its_signed_in_users(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    users = block("api-security.md", "# Django: the session").replace("def django_user", "def current_user")
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("urls", URLS), ("jobs", users + JOBS)):
        (shop / f"{name}.py").write_text(text)
    (tmp_path / "asgi.py").write_text(block("rest-api.md", "from django.core.asgi"))
    (tmp_path / "use.py").write_text(USE)
    assert run(tmp_path, "use.py").strip() == SEEN.strip()


def test_a_dependency_of_fastapi_finds_the_user_for_the_api_too(fresh_sqlite: Any) -> None:
    class Users:
        async def by_cookie(self, value: str | None) -> Any:
            return SimpleNamespace(id=7, company="acme") if value == "of-anna" else None

    jobs, web = App(fresh_sqlite()), FastAPI()

    @jobs.job
    def welcome(user_id: int) -> None: ...

    names: dict[str, Any] = {"users": Users(), "jobs": jobs, "web": web}
    names |= {"Request": Request, "Principal": Principal, "create_api": create_api}
    exec(compile(block("api-security.md", "# FastAPI"), "api-security.md", "exec", dont_inherit=True), names)
    current_user = names["current_user"]

    @web.get("/me")
    async def me(user: Any = Depends(current_user)) -> str:  # noqa: B008  FastAPI reads it there
        return str(user.subject) if user else "nobody"

    own = {"Sec-Fetch-Site": "same-origin"}
    with (
        jobs,
        TestClient(web, headers=own) as stranger,
        TestClient(web, cookies={"session": "of-anna"}, headers=own) as anna,
    ):
        assert (stranger.get("/me").json(), anna.get("/me").json()) == ("nobody", "7")
        assert stranger.get("/jobs/v1/jobs").status_code == 401
        made = anna.post("/jobs/v1/jobs", json={"kind": "welcome", "arguments": {"user_id": 1}})
        assert made.status_code == 202
        assert jobs.jobs.count("principal:7").count == 1
        assert [one["id"] for one in anna.get("/jobs/v1/jobs").json()["jobs"]] == [made.json()["id"]]
        refused = anna.post(
            "/jobs/v1/jobs", json={"kind": "welcome"}, headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert (refused.status_code, refused.json()["code"]) == (403, "cross-site")
