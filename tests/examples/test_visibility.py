"""The example ``visibility``: the pipeline on both databases, its web application, and a run in which workers are killed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import windlass
from tests.examples.conftest import Example
from windlass.testing import Sandbox
from windlass_examples.running.database import connected
from windlass_examples.visibility import results
from windlass_examples.visibility.jobs import app, visibility
from windlass_examples.visibility.web import web
from windlass_examples.web.servers import PATHS, Server

pytestmark = pytest.mark.usefixtures("surroundings")


def test_a_page_becomes_a_verdict(store_url: str, site: Server, model: Server) -> None:
    with Sandbox(app, url=store_url) as box:
        results.create(store_url)
        job = visibility.enqueue(url=f"http://{site.authority}{PATHS[0]}")
        box.drain(advance=True)
        (row,) = results.read(store_url)
        found = box.only("visibility")
    assert row["title"] == "The sailing knots page" and row["language"] == "en"
    assert row["job"] == job.id and row["topics"][:2] == ["knots", "sailing"]
    assert found.result["score"] == row["score"] and found.result["advice"] == row["advice"]
    assert model.calls == len(model.charged) == 4


def test_a_killed_attempt_asks_no_question_twice(site: Server, model: Server, tmp_path: Path) -> None:
    with Sandbox(app) as box:
        results.create(box.url)
        visibility.enqueue(url=f"http://{site.authority}{PATHS[1]}")
        assert box.drain() >= 2
        box.drain(advance=True)
        again = visibility.enqueue(url=f"http://{site.authority}{PATHS[2]}")
        box.faults.kill_at_end()  # of the first phase: fetched, not recorded
        box.drain(advance=True)
        assert box.app.jobs.get(again.id).state == "completed"
        assert len(results.read(box.url)) == 2
        assert box.faults.struck
    assert model.calls == 8


@pytest.mark.parametrize("path", ["/missing", "/pages/99"])
def test_a_page_that_is_refused_fails_at_once(site: Server, path: str) -> None:
    with Sandbox(app) as box:
        visibility.enqueue(url=f"http://{site.authority}{path}")
        box.drain(advance=True)
        job = box.only("visibility")
    assert (job.state, job.attempt) == ("failed", 1)
    assert job.error is not None and job.error["code"] == "page_refused" and "404" in job.error["message"]


def test_the_web_application(site: Server) -> None:
    with Sandbox(app) as box, TestClient(web) as client:
        url = f"http://{site.authority}{PATHS[3]}"
        made = client.post("/sites", json={"url": url})
        assert made.status_code == 202
        job = made.json()["job"]
        assert client.post("/sites", json={"url": url}).json()["job"] == job, "the same page while it runs"
        assert "website-analysis" in client.get("/").text
        box.drain(advance=True)
        shown = client.get(f"/sites/{job}").json()
        assert shown["state"] == "completed" and shown["result"]["title"] == "The rope making page"
        page = client.get("/")
        assert "The rope making page" in page.text and "http-equiv=refresh" not in page.text
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert len(client.get("/sites").json()) == 1
        sent = client.post("/", data={"url": f"http://{site.authority}{PATHS[4]}"}, follow_redirects=False)
        assert sent.status_code == 303
        assert (
            client.post("/", data={"url": url}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        )
        for refused in ("http://127.0.0.1:1/", "ftp://example.org/", "http://x@example.org/"):
            reply = client.post("/sites", json={"url": refused})
            assert (reply.status_code, reply.json()["code"]) == (422, "page_refused")
        assert client.get("/sites/7").status_code == 404


def test_what_a_page_says_is_text_in_ours(site: Server) -> None:
    """A title is from a stranger's page."""
    with Sandbox(app) as box, TestClient(web) as client:
        job = visibility.enqueue(url=f"http://{site.authority}/pages/1?<script>")
        with contextlib.closing(windlass.App(box.url)):
            box.drain(advance=True)
        verdict = {
            "url": "x",
            "title": "<script>alert(1)</script>",
            "score": 1,
            "rank": 1.0,
            "advice": ["<b>"],
        }
        with connected(box.url) as connection:
            results.write(connection, job.id, "<i>", ["<u>"], verdict)
        text = client.get("/").text
    assert "<script>" not in text and "&lt;script&gt;alert(1)" in text
    assert "<b>" not in text and "<i>" not in text and "<u>" not in text


@pytest.mark.slow
@pytest.mark.timing
def test_the_command(example: Example) -> None:
    facts = example("visibility", "--pages", "3", "--workers", "1")
    assert (facts["completed"], facts["results"], facts["results twice"]) == ("3", "3", "0")
    assert facts["questions"] == facts["questions charged"] == "12"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("database", [[], ["--postgres"]], ids=["sqlite", "postgres"])
def test_killed_workers_double_nothing(example: Example, database: list[str]) -> None:
    facts = example("visibility", "--chaos", *database)
    assert (facts["workers killed"], facts["results twice"]) == ("3", "0")
    assert int(facts["jobs interrupted"]) >= 1
