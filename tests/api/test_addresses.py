"""What the API says about addresses and times that a request has wrong."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from windlass import App


@pytest.mark.parametrize(
    ("path", "methods"), [("/v1/jobs", "GET, POST"), ("/v1/operations", "GET, POST"), ("/livez", "GET")]
)
def test_allow_names_all_methods_of_an_address(boss: TestClient, path: str, methods: str) -> None:
    refused = boss.put(path)
    assert (refused.status_code, refused.headers["Allow"]) == (405, methods)


def test_a_number_is_no_time(app: App, boss: TestClient) -> None:
    for path in ("/v1/audit?since=0.5", "/v1/history?since=7"):
        refused = boss.get(path)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "query:since")
    for member, value in (("run_at", 5), ("expires", "60")):
        refused = boss.post("/v1/jobs", json={"kind": "welcome", member: value})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"].startswith(f"#/{member}")
    assert app.jobs.count().count == 0
