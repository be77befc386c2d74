"""Jobs are read through the API as far as the caller may see them."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient

from tests.waiting import PATIENCE
from windlass import App, Context
from windlass.model import NewJob
from windlass.store.ids import new_id


def test_a_job_is_read_with_its_version_as_etag(app: App, boss: TestClient) -> None:
    job = app.enqueue("welcome", user="anna")
    found = boss.get(f"/v1/jobs/{job.id}")
    assert found.status_code == 200
    assert (found.json()["kind"], found.json()["arguments"]) == ("welcome", {"user": "anna"})
    assert found.headers["ETag"] == f'"{app.jobs.get(job.id).version}"'


def test_a_version_that_the_client_has_is_not_sent_again(app: App, boss: TestClient) -> None:
    path = f"/v1/jobs/{app.enqueue('welcome', user='anna').id}"
    tag = boss.get(path).headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = boss.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag), known
        assert again.headers["X-Request-ID"] and "Content-Type" not in again.headers
    assert boss.get(path, headers={"If-None-Match": '"other"'}).json()["arguments"] == {"user": "anna"}
    changed = boss.patch(path, json={"priority": 9}, headers={"If-Match": tag})
    assert changed.status_code == 200
    found = boss.get(path, headers={"If-None-Match": tag})
    assert (found.status_code, found.json()["priority"]) == (200, 9)


def test_a_list_continues_where_its_link_says(app: App, boss: TestClient) -> None:
    made = app.store.enqueue([NewJob(kind="welcome", args={"number": n}) for n in range(5)])
    seen, url = [], "/v1/jobs?q=kind:welcome&limit=2"
    while True:
        page = boss.get(url)
        seen += [job["id"] for job in page.json()["jobs"]]
        assert page.json()["has_more"] == ("next" in page.links)
        if "next" not in page.links:
            break
        url = page.links["next"]["url"]
    assert seen == sorted((one.id for one in made), reverse=True)


def test_outputs_of_a_phase_are_downloaded(app: App, boss: TestClient) -> None:
    sites = app.pipeline("sites")

    @sites.phase("fetch")
    def fetch(url: str, ctx: Context) -> str:
        ctx.put_output("headers", {"Server": "x"})
        return f"text of {url}"

    @sites.phase("store")
    def store(url: str) -> None: ...

    job = app.enqueue("sites", url="https://a.example")
    worker = app.worker()
    worker.start()
    job.wait(timeout=PATIENCE)
    worker.stop()
    paths = {"fetch": "text of https://a.example", "fetch/headers": {"Server": "x"}}
    for path, value in paths.items():
        found = boss.get(f"/v1/jobs/{job.id}/outputs/sites:{path}")
        assert (found.status_code, found.json()) == (200, value)
        assert found.headers["Content-Disposition"] == f'attachment; filename="{job.id}.json"'
    listed = boss.get(f"/v1/jobs/{job.id}/outputs").json()["outputs"]
    assert {"/".join(filter(None, (one["phase"], one["name"]))) for one in listed} >= {
        f"sites:{path}" for path in paths
    }
    missing = boss.get(f"/v1/jobs/{job.id}/outputs/sites:none")
    assert (missing.status_code, missing.json()["type"].rpartition("/")[2]) == (404, "output-not-found")


def test_a_job_of_another_person_is_refused_like_one_that_does_not_exist(
    app: App, as_caller: Callable[[str], TestClient]
) -> None:
    job, missing = app.enqueue("welcome"), new_id()
    bert = as_caller("bert@acme")
    for path in ("", "/why", "/timeline", "/logs"):
        foreign, unknown = bert.get(f"/v1/jobs/{job.id}{path}"), bert.get(f"/v1/jobs/{missing}{path}")
        assert foreign.status_code == unknown.status_code == 404
        told = [{**found.json(), "request_id": ""} for found in (foreign, unknown)]
        assert str(told[0]).replace(job.id, missing) == str(told[1])


def test_a_request_without_a_caller_is_refused(api: object) -> None:
    refused = TestClient(api).get("/v1/jobs")  # type: ignore[arg-type]
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert refused.headers["Content-Type"] == "application/problem+json"


def test_a_caller_without_the_role_is_refused(as_caller: Callable[[str], TestClient]) -> None:
    refused = as_caller("anna@acme submit").get("/v1/jobs")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


def test_errors_name_the_request_that_the_client_named(boss: TestClient) -> None:
    refused = boss.get("/v1/jobs/none", headers={"X-Request-ID": "abc-1"})
    assert refused.json()["request_id"] == refused.headers["X-Request-ID"] == "abc-1"
    assert (
        boss.get("/v1/jobs/none", headers={"X-Request-ID": "not {good}"}).json()["request_id"] != "not {good}"
    )
