"""Everything that control can do is done through the API, with the caller in the audit trail."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient

from windlass import App
from windlass.model import NewSchedule, State
from windlass.store.ids import new_id

WHY = {"reason": "ordered twice"}


def test_a_job_is_cancelled_retried_edited_and_deleted(app: App, boss: TestClient) -> None:
    job = app.enqueue("welcome", user="anna").id
    path = f"/v1/jobs/{job}"
    tag = boss.get(path).headers["ETag"]
    edited = boss.patch(path, json={"arguments": {"user": "bert"}, **WHY}, headers={"If-Match": tag})
    assert edited.json()["arguments"] == {"user": "bert"}
    assert boss.post(f"{path}/cancel", json=WHY).json() == {"result": "cancelled"}
    refused = boss.post(f"{path}/cancel", json=WHY)
    assert (refused.status_code, refused.json()["state"]) == (409, "cancelled")
    retried = boss.post(f"{path}/retry").json()
    assert (retried["state"], retried["generation"]) == ("queued", 2)
    boss.post(f"{path}/cancel", json=WHY)
    assert boss.delete(path).status_code == 422
    assert boss.delete(path, params=WHY).status_code == 204
    assert boss.get(path).status_code == 404
    trail = boss.get("/v1/audit", params={"target": "job", "name": job, "limit": 10}).json()["records"]
    assert [(one["act"], one["actor"]) for one in trail] == [
        (f"job.{act}", "boss") for act in ("delete", "cancel", "retry", "cancel", "edit")
    ]


def test_a_scheduled_job_is_run_now(app: App, boss: TestClient) -> None:
    job = app.kind("welcome").options(delay=3600).enqueue().id
    before = app.jobs.get(job).run_at
    assert boss.post(f"/v1/jobs/{job}/run-now").status_code == 200
    run_at = app.jobs.get(job).run_at
    assert before is not None and run_at is not None and run_at < before


def test_an_operation_is_counted_begun_and_stopped(app: App, boss: TestClient) -> None:
    for _ in range(3):
        app.enqueue("welcome")
    body = {"act": "cancel", "filter": "kind:welcome", **WHY}
    dry = boss.post("/v1/operations", json={**body, "dry_run": True})
    assert (dry.status_code, dry.json()["matched"], dry.json()["id"]) == (200, 3, None)
    begun = boss.post("/v1/operations", json=body)
    assert begun.status_code == 202
    path = begun.headers["Location"]
    assert boss.get("/v1/operations").json()["operations"][0]["id"] == begun.json()["id"]
    app.operations.wait(begun.json()["id"])
    done = boss.get(path).json()
    assert (done["state"], done["done"], done["refused"]) == ("done", 3, 0)
    assert boss.post(f"{path}/stop").json() == {"changed": False}
    assert app.jobs.count("state:cancelled").count == 3


def test_acts_that_edit_need_the_role_edit_also_for_many_jobs(as_caller: Callable[[str], TestClient]) -> None:
    anna = as_caller("anna@acme view,operate")
    body = {"act": "priority", "filter": "kind:welcome", "priority": 1}
    assert anna.post("/v1/operations", json=body).status_code == 403


def test_a_phase_is_paused_and_resumed(app: App, boss: TestClient) -> None:
    app.enqueue("welcome")
    assert boss.post("/v1/phases/welcome/pause", json={**WHY, "lasts": 60}).status_code == 204
    found = boss.get("/v1/phases/welcome").json()
    assert found["pause"]["reason"] == "ordered twice" and found["counts"]["queued"] == 1
    assert boss.post("/v1/phases/welcome/resume").json() == {"changed": True}
    assert boss.get("/v1/phases").json()["phases"][-1]["pause"] is None


def test_an_instance_is_drained_and_given_processors(app: App, boss: TestClient) -> None:
    holder = app.store.join(info={"phases": ["welcome"], "host": "h", "pid": 1})
    (found,) = boss.get("/v1/instances").json()["instances"]
    assert (found["id"], found["host"]) == (str(holder.id), "h")
    path = f"/v1/instances/{holder.id}"
    assert boss.get(path).json() == found
    assert boss.get("/v1/pools").json()["pools"][0]["phase"] == "welcome"
    asked = boss.put(f"{path}/processors/welcome", json={"count": 3})
    assert (asked.status_code, asked.json()["number"]) == (202, 3)
    assert boss.put(f"{path}/processors/welcome", json={"count": 0}).status_code == 422
    drained = boss.post(f"{path}/drain", json=WHY)
    assert boss.get(drained.headers["Location"]).json()["act"] == "drain"
    assert len(boss.get(f"{path}/requests").json()["requests"]) == 2


def test_a_schedule_is_shown_paused_run_and_removed(app: App, boss: TestClient) -> None:
    app.store.schedules.put(NewSchedule(name="nightly", kind="welcome", expression="0 2 * * *"))
    (found,) = boss.get("/v1/schedules").json()["schedules"]
    assert found == boss.get("/v1/schedules/nightly").json()
    assert len(boss.get("/v1/schedules/nightly/next?count=3").json()["times"]) == 3
    assert boss.post("/v1/schedules/nightly/pause", json=WHY).json()["state"] == "paused"
    assert boss.post("/v1/schedules/nightly/resume").json() == {"changed": True}
    made = boss.post("/v1/schedules/nightly/run")
    assert boss.get(made.headers["Location"]).json()["kind"] == "welcome"
    assert boss.get("/v1/schedules/nightly/ticks").json() == {"ticks": []}
    assert boss.delete("/v1/schedules/nightly").status_code == 204
    assert boss.get("/v1/schedules/nightly").status_code == 404


def test_the_system_is_shown(app: App, boss: TestClient) -> None:
    app.when("welcome", create="report", args={})
    app.sync()
    (rule,) = boss.get("/v1/rules").json()["rules"]
    assert rule == boss.get(f"/v1/rules/{rule['name']}").json()
    assert boss.get("/v1/fan-ins").json() == {"fan_ins": []}
    assert [one["name"] for one in boss.get("/v1/pipelines").json()["pipelines"]] == ["report", "welcome"]
    assert boss.get("/v1/pipelines/welcome").json()["parameters"] == ["user", "number"]
    assert boss.get("/v1/failures").json()["groups"] == []
    assert (
        boss.get("/v1/history", params={"since": "2026-01-01T00:00:00Z", "step": "86400"}).status_code == 200
    )
    app.enqueue("welcome")
    assert 'windlass_jobs{phase="welcome",state="queued"} 1.0' in boss.get("/metrics").text
    health = boss.get("/healthz").json()
    assert (
        health["status"] == "degraded"
        and "no living instance serves the phase welcome" in health["problems"][0]
    )
    assert len(boss.get("/v1/overview").json()["phases"]) == 2
    assert boss.get("/v1/doctor").json()["is_reachable"]
    settings = {one["key"]: one for one in boss.get("/v1/settings").json()["settings"]}
    assert settings["api.port"]["value"] == "8080"


def test_the_health_says_whether_the_database_responds(app: App, boss: TestClient) -> None:
    assert boss.get("/healthz").json() == {"status": "ok", "store": "ok", "problems": []}
    assert boss.get("/readyz").json() == {"status": "ok"}
    app.store.close()
    found = boss.get("/healthz")
    assert (found.status_code, found.json()["status"]) == (503, "down")
    assert found.json()["store"] == "store-unreachable" and "unreachable" in found.json()["problems"][0]
    assert boss.get("/readyz").json()["code"] == "store-unreachable"


def test_results_and_outputs_are_downloaded(app: App, boss: TestClient) -> None:
    job = app.enqueue("welcome", user="anna").id
    holder = app.store.join()
    (lease,) = holder.claim("welcome", limit=1)
    holder.complete(lease, result={"said": "hello"})
    found = boss.get(f"/v1/jobs/{job}/result")
    assert found.json() == {"said": "hello"}
    assert found.headers["Content-Disposition"] == f'attachment; filename="{job}.json"'
    assert boss.get(f"/v1/jobs/{job}/outputs").json() == {"outputs": []}
    assert app.jobs.get(job).state is State.COMPLETED


def test_actors_who_do_not_see_all_jobs_see_nothing_of_the_whole(
    app: App, as_caller: Callable[[str], TestClient]
) -> None:
    bert = as_caller("bert@acme")
    for path in ("/v1/overview", "/v1/phases", "/v1/pools", "/v1/instances", "/v1/schedules", "/v1/rules", "/v1/fan-ins", "/metrics", "/healthz",
                 "/v1/doctor", "/v1/settings", "/v1/history?since=2026-01-01T00:00:00Z"):  # fmt: skip
        refused = bert.get(path)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path
    app.enqueue("welcome")
    assert bert.get("/v1/jobs").json()["jobs"] == []
    assert bert.get("/v1/jobs/count").json()["count"] == 0
    assert bert.get("/v1/failures").json()["groups"] == []
    assert bert.get(f"/v1/operations/{new_id()}").status_code == 404
