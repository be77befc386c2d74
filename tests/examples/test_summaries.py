"""The example ``summaries``: one summary for each request, with Redis and without, and what its callers and its log see."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.examples.conftest import Example
from tests.waiting import eventually
from windlass_examples.summaries import jobs
from windlass_examples.summaries.service import HEADER, create_service
from windlass_examples.web.servers import PATHS, Server

pytestmark = [pytest.mark.usefixtures("surroundings"), pytest.mark.timing]
FAST = {"background.retry.base_delay_ms": 10, "background.retry.attempts": 2}


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """The records of the logger that services are given in ``service``."""
    found: list[logging.LogRecord] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Collecting()
    log = logging.getLogger("test-summaries")
    log.propagate = False
    log.setLevel("DEBUG")
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


def service(url: str, **changes: Any) -> TestClient:
    settings = {"database.url": url, **FAST, **changes}
    return TestClient(create_service(settings, logger=logging.getLogger("test-summaries")))


def ended(client: TestClient, request: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        shown: dict[str, Any] = client.get(f"/summaries/{request}").json()
        return shown if shown["status"] != "processing" else None

    result: dict[str, Any] = eventually(found, "the end of the request")
    return result


def test_a_page_is_summarised_once(
    store_url: str, valkey_url: str, site: Server, model: Server, lines: list[logging.LogRecord]
) -> None:
    page = f"http://{site.authority}{PATHS[0]}"
    with service(store_url, **{"redis.url": valkey_url}) as client:
        first = client.post("/summaries", json={"url": page}, headers={HEADER: "shop-7"})
        assert first.status_code == 202 and first.headers[HEADER] == "shop-7"
        request = first.json()["request"]
        shown = ended(client, request)
        assert shown["status"] == "success" and shown["correlation_id"] == "shop-7" and shown["error"] is None
        assert shown["summary"]["summary"].startswith("Sailing knots Everything about sailing knots, part 1.")
        again = client.post("/summaries", json={"url": page}, headers={HEADER: "shop-8"}).json()
        assert (again["request"], again["is_new"], again["correlation_id"]) == (request, False, "shop-7")
        with ThreadPoolExecutor(4) as callers:
            replies = callers.map(lambda _: client.post(f"/summaries/{request}/process").json(), range(4))
        assert {reply["status"] for reply in replies} <= {"already done", "lock held"}
        parts = client.get("/health").json()
    (row,) = jobs.read(store_url)
    assert row["writes"] == 1 and model.calls == 1
    assert "redis" not in str(parts).lower() or "degraded" not in str(parts.get("degraded", ""))
    ours = [line for line in lines if getattr(line, "job_id", None) == request]
    assert ours and {line.__dict__["correlation_id"] for line in ours} == {"shop-7"}
    assert "shop-7" in {
        line.__dict__.get("correlation_id") for line in lines if line.getMessage() == "request.served"
    }


@pytest.mark.one_database
def test_without_redis_the_service_is_degraded_and_works(
    tmp_path: Path, site: Server, lines: list[logging.LogRecord]
) -> None:
    url = f"sqlite:///{tmp_path}/summaries.db"
    with service(url, **{"redis.url": "redis://127.0.0.1:1/0"}) as client:
        made = client.post("/summaries", json={"url": f"http://{site.authority}{PATHS[1]}"}).json()
        assert ended(client, made["request"])["status"] == "success"
        assert "redis lock" in client.get("/health").text
        assert "windlass_degraded{" in client.get("/metrics").text
    assert any(
        getattr(line, "event", "") == "lock.degraded" or "degraded" in line.getMessage() for line in lines
    )


@pytest.mark.one_database
def test_errors_are_structured(
    tmp_path: Path, site: Server, lines: list[logging.LogRecord], monkeypatch
) -> None:
    url = f"sqlite:///{tmp_path}/summaries.db"
    with service(url) as client:
        made = client.post(
            "/summaries", json={"url": f"http://{site.authority}/missing"}, headers={HEADER: "shop-9"}
        ).json()
        error = ended(client, made["request"])["error"]
        assert error["code"] == "page_refused" and "status 404" in error["message"]
        assert (error["stage"], error["correlation_id"]) == ("extraction", "shop-9")
        assert set(error) == {"type", "code", "message", "stage", "correlation_id"}

        refused = client.post(
            "/summaries", json={"url": "http://127.0.0.1:1/"}, headers={HEADER: "bad id\t!"}
        )
        assert refused.status_code == 422 and refused.json()["code"] == "page_refused"
        assert refused.headers[HEADER] == refused.json()["correlation_id"] != "bad id\t!"
        assert client.get("/summaries/7").status_code == 404

        def broken(*_: object) -> None:
            raise RuntimeError("a secret text")

        monkeypatch.setattr(jobs, "read", broken)
        failed = client.get(f"/summaries/{made['request']}", headers={HEADER: "shop-10"})
        assert failed.status_code == 500 and "a secret text" not in failed.text
        assert failed.json()["correlation_id"] == "shop-10"
    assert any(line.__dict__.get("correlation_id") == "shop-10" and line.exc_info for line in lines)


@pytest.mark.one_database
def test_a_model_that_is_away_is_tried_again(
    tmp_path: Path,
    site: Server,
    model: Server,
    lines: list[logging.LogRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Backoff within the stage: the provider refuses twice, and says when to come again."""
    waits = [0.05, 0.05, 0.0]
    monkeypatch.setattr(model, "admit", lambda: waits.pop(0))
    url = f"sqlite:///{tmp_path}/summaries.db"
    with service(url) as client:
        made = client.post("/summaries", json={"url": f"http://{site.authority}{PATHS[2]}"}).json()
        assert ended(client, made["request"])["status"] == "success"
    assert waits == [] and model.charged == {f"{made['request']}:1:url-summary:summarisation"}
    retried = [line for line in lines if getattr(line, "event", "") == "call.retried"]
    assert len(retried) == 2
    assert {line.__dict__["correlation_id"] for line in retried} == {made["correlation_id"]}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("database", [[], ["--postgres"]], ids=["sqlite", "postgres"])
def test_killed_servers_double_nothing(example: Example, valkey_url: str, database: list[str]) -> None:
    facts = example("summaries", "--chaos", "--redis", valkey_url, *database)
    assert (facts["servers killed"], facts["summaries"], facts["written twice"]) == ("2", "48", "0")
