"""The files of the dashboard: where they come from, and how they are sent."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from windlass.dashboard import with_dashboard
from windlass.dashboard.assets import FOLDER, Assets

VENDORED = json.loads((FOLDER.parent / "vendor.json").read_text())


def client(base: str = "") -> TestClient:
    web = with_dashboard(Starlette(routes=[Route("/v1/jobs", lambda _: PlainTextResponse("of the API"))]))
    return TestClient(Starlette(routes=[Mount(base, app=web)]) if base else web)


def test_vendored_files_are_those_of_their_packages() -> None:
    found = {path.name for path in (FOLDER / "vendor").iterdir()} - {"LICENSES.txt"}
    assert found == {one["file"] for one in VENDORED}
    for one in VENDORED:
        content = (FOLDER / "vendor" / one["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one["sha256"], one["file"]


def test_axe_is_the_published_file() -> None:
    content = (Path(__file__).parent / "vendor" / "axe.min.js").read_bytes()
    assert (
        hashlib.sha256(content).hexdigest()
        == "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
    )


def test_the_page_is_small_enough_on_the_wire() -> None:
    for screen in ("/", "/pipelines", "/pipelines/x", "/jobs", "/jobs/x", "/failures", "/system"):
        with client() as web:
            found = [web.get(screen)]
            found += [
                web.get(f"/{name}") for name in re.findall(r'(?:href|src)="(static/[^"]+)"', found[0].text)
            ]
        sent = sum(len(gzip.compress(one.content)) + len(str(one.headers)) for one in found)
        assert sent < 120_000, screen


def test_the_page_names_all_modules_that_its_screen_needs() -> None:
    assets = Assets()
    for screen, own, other in (
        ("/", "pages/overview.js", "pages/job.js"),
        ("/jobs/some-id", "pages/job.js", "pages/overview.js"),
        ("/jobs", "pages/jobs.js", "components/graph.js"),
        ("/pipelines/a%2Fb", "pages/pipeline.js", "pages/jobs.js"),
    ):
        needed = assets.needed(screen)
        assert {own, "app.js", "lib/api.js", "vendor/preact.js"} <= set(needed) and other not in needed, (
            screen
        )
    assert assets.needed("/nothing") == [
        name for name in assets.needed("/jobs") if name in assets.needed("/nothing")
    ]


def test_each_screen_is_the_page_and_the_rest_is_the_api() -> None:
    with client() as web:
        for path in ("/", "/jobs", "/jobs/some-id", "/pipelines/a%2Fb", "/sign-in"):
            assert web.get(path).headers["content-type"].startswith("text/html"), path
        assert web.get("/v1/jobs").text == "of the API"
        assert web.post("/jobs").status_code == 404
        assert web.get("/static/x/none.js").status_code == 404
        assert web.get("/static/x/../mounting.py").status_code == 404


def test_the_page_works_under_any_path_and_escapes_it() -> None:
    with client("/a/b") as web:
        text = web.get("/a/b/jobs").text
    assert '<base href="/a/b/">' in text
    with TestClient(with_dashboard(Starlette()), root_path='/"><script>') as web:
        assert "<script>alert" not in web.get("/").text
        assert '<base href="/%22%3E%3Cscript%3E/">' in web.get("/").text


def test_files_are_kept_for_ever_under_a_path_of_their_content() -> None:
    with client() as web:
        text = web.get("/").text
        names = re.findall(r'(?:href|src)="(static/[^"]+)"', text)
        assert len(names) > 20
        for name in names:
            found = web.get(f"/{name}")
            assert found.status_code == 200, name
            assert "immutable" in found.headers["cache-control"]
            assert found.headers["content-encoding"] == "gzip"
            again = web.get(f"/{name}", headers={"If-None-Match": found.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")


def test_the_policy_allows_nothing_but_this_origin() -> None:
    with client() as web:
        found = web.get("/")
    policy = found.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "require-trusted-types-for 'script'" in policy
    (inline,) = re.findall(r"<script type=\"importmap\">(.+?)</script>", found.text)
    digest = hashlib.sha256(inline.encode()).digest()
    import base64

    assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy


def test_no_script_of_ours_sets_html_or_names_another_origin() -> None:
    for path in FOLDER.rglob("*.js"):
        if path.parent.name == "vendor":
            continue
        text = path.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerously|\beval\(", text
        ), path
        assert not re.search(r"https?://(?!www\.w3\.org)", text), path
