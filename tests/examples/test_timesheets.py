"""The example ``timesheets``: exports that are killed, cancelled and resumed; who may order and download; what is removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi.testclient import TestClient

import windlass
from tests.examples.conftest import Example
from windlass import Principal
from windlass.testing import Sandbox
from windlass_examples.running.database import connected, execute
from windlass_examples.timesheets import access, cells, data, jobs
from windlass_examples.timesheets.files import Part, ReportFolder
from windlass_examples.timesheets.web import create_web

ROWS = 1_200
ORDER = {"period": "2026-09", "county": "Harju"}
ANA = Principal("ana", roles={access.MANAGER}, attributes={"county": ["Harju"]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportFolder:
    monkeypatch.setenv("TIMESHEETS_FOLDER", str(tmp_path / "reports"))
    monkeypatch.setenv("TIMESHEETS_SECRET", "a secret for tests, of 32 bytes or more")
    monkeypatch.setattr(jobs, "CHUNK", 20)
    return ReportFolder.from_environment()


@pytest.fixture
def box(folder: ReportFolder, store_url: str) -> Iterator[Sandbox]:
    with Sandbox(jobs.app, url=store_url) as made:
        data.generate(store_url, ROWS)
        yield made


def reports(url: str) -> list[Any]:
    with connected(url) as connection:
        return list(
            execute(connection, "SELECT job, kind, owner, rows_total FROM report ORDER BY kind").fetchall()
        )


def export(box: Sandbox, user: Principal = ANA) -> windlass.JobHandle[jobs.Report]:
    with box.app.as_principal(user):
        return jobs.hours.enqueue(ORDER["period"], ORDER["county"], user.subject)


def test_both_exports_make_a_summary(box: Sandbox, folder: ReportFolder) -> None:
    box.app.sync()
    with box.app.as_principal(ANA):
        hours = jobs.hours.enqueue(ORDER["period"], ORDER["county"], "ana")
        leave = jobs.leave.enqueue(ORDER["period"], ORDER["county"], "ana")
    box.drain(advance=True)
    found = reports(box.url)
    assert [(kind, owner) for _, kind, owner, _ in found] == [
        ("hours", "ana"),
        ("leave", "ana"),
        ("summary", ""),
    ]
    progress = hours.progress()
    assert progress is not None and progress.percent == 100.0 and progress.total == found[0][3] > 60
    text = folder.of(hours.id).read_text("utf-8")
    assert text.count("\n") == found[0][3] + 1 and text.startswith('"Name","Department","Day","Hours","Note"')
    assert folder.of(leave.id).exists() and folder.parts() == []
    assert '"\'=1+1"' in text and "two lines" in text
    summary = folder.of(found[2][0]).read_text("utf-8")
    departments = [line.split(",")[0] for line in summary.splitlines()]
    assert departments[0] == '"Department"' and set(departments[1:]) < {
        f'"{name}"' for name in data.DEPARTMENTS
    }


@pytest.mark.parametrize("after_commit", [False, True], ids=["before the commit", "after the commit"])
def test_a_killed_export_has_the_same_bytes(
    box: Sandbox, folder: ReportFolder, after_commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = export(box)
    box.drain(advance=True)
    expected = folder.of(whole.id).read_bytes()
    again = export(box)
    begin = Part.begin

    def begin_behind_half_a_line(part: Part, size: int) -> None:
        """A process that died in the middle of a chunk has written more than it committed."""
        for path in folder.parts(again.id):
            with path.open("ab") as file:
                file.write(b"half a li")
        begin(part, size)

    monkeypatch.setattr(Part, "begin", begin_behind_half_a_line)
    for chunk in (1, 3):
        box.faults.kill_at_chunk(chunk, after_commit=after_commit)
    box.drain(advance=True)
    assert again.state() == "completed"
    assert folder.of(again.id).read_bytes() == expected
    assert folder.parts() == [] and len(reports(box.url)) == 2
    assert len(box.faults.struck) == 2


def test_a_file_that_has_its_name_is_used_again(box: Sandbox, folder: ReportFolder) -> None:
    """The process died after the file was renamed and before the job ended."""
    job = export(box)
    box.faults.kill_at_end()
    box.drain(advance=True)
    assert box.faults.struck and job.state() == "completed"
    assert folder.parts() == [] and len(reports(box.url)) == 1
    assert folder.of(job.id).read_bytes().count(b"\r\n") == reports(box.url)[0][3] + 1


def test_a_cancelled_export_leaves_no_file(
    box: Sandbox, folder: ReportFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = export(box)
    seen: list[int] = []
    lines = cells.lines

    def cancel_at_the_third(rows: Any) -> bytes:
        seen.append(len(folder.parts(job.id)))
        if len(seen) == 3:
            box.app.handle(job.id).cancel("not needed")
        return lines(rows)

    monkeypatch.setattr(cells, "lines", cancel_at_the_third)
    box.drain(advance=True)
    assert job.state() == "cancelled" and seen == [1, 1, 1]
    assert list(folder.path.iterdir()) == [] and reports(box.url) == []


@pytest.mark.one_database
@pytest.mark.parametrize(
    "user",
    [
        Principal("eve", roles={access.MANAGER}, attributes={"county": ["Tartu"]}),
        Principal("eve", roles={access.MANAGER}),
        Principal("eve", roles={"reader"}, attributes={"county": ["Harju"]}),
    ],
    ids=["another county", "no county", "another role"],
)
def test_the_handler_checks_the_rights_itself(box: Sandbox, folder: ReportFolder, user: Principal) -> None:
    job = export(box, user)
    box.drain(advance=True)
    found = job.job()
    assert found.state == "failed" and found.error is not None and found.error["code"] == "not_allowed"
    assert list(folder.path.iterdir()) == []


def test_each_night_all_counties(box: Sandbox, folder: ReportFolder) -> None:
    box.app.sync()
    assert {schedule.name for schedule in box.app.schedules.list()} == {"nightly", "remove_old"}
    with connected(box.url) as connection:
        execute(connection, "DELETE FROM timesheet WHERE id > 400")
    box.app.schedules.run_now("nightly")
    box.drain(advance=True)
    kinds = [kind for _, kind, owner, _ in reports(box.url) if owner == ""]
    assert sorted(kinds) == sorted(["hours", "leave", "summary"] * len(data.COUNTIES))


def test_old_files_and_left_parts_are_removed(
    box: Sandbox, folder: ReportFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = export(box), export(box)
    box.drain(advance=True)
    with connected(box.url) as connection:
        execute(
            connection, "UPDATE report SET made_at = ? WHERE job = ?", (time.time() - 31 * 86_400, old.id)
        )
    left = folder.path / f".{new.id}.7.part"
    left.touch()
    assert jobs.remove_old(folder) == 2
    assert not folder.of(old.id).exists() and not left.exists() and folder.of(new.id).exists()
    assert [row[0] for row in reports(box.url)] == [new.id]


def bearer(
    subject: str, role: str = access.MANAGER, county: str = "Harju", seconds: int = 3600
) -> dict[str, str]:
    return {"Authorization": f"Bearer {access.new_token(subject, role, [county], seconds)}"}


def test_orders_and_downloads(box: Sandbox, folder: ReportFolder) -> None:
    with TestClient(create_web()) as client:
        ordered = client.post("/reports", json={"kind": "hours", **ORDER}, headers=bearer("ana"))
        assert ordered.status_code == 202
        job = ordered.json()["report"]
        assert client.get(f"/reports/{job}", headers=bearer("ana")).json()["state"] == "queued"
        box.drain(advance=True)
        shown = client.get(f"/reports/{job}", headers=bearer("ana")).json()
        assert (shown["state"], shown["percent"]) == ("completed", 100.0)
        for who in (bearer("ana"), bearer("audit", access.AUDITOR, "")):
            file = client.get(f"/reports/{job}/file", headers=who)
            assert file.content == folder.of(job).read_bytes()
            assert "hours-Harju-2026-09.csv" in file.headers["Content-Disposition"]
            assert len(client.get("/reports", headers=who).json()) == 1
        for who in (
            bearer("ben"),
            bearer("ana", county="Tartu"),
            bearer("ana", "reader"),
        ):  # rights are those of now
            assert client.get(f"/reports/{job}/file", headers=who).status_code == 404
            assert client.get(f"/reports/{job}", headers=who).status_code == 404
            assert client.post(f"/reports/{job}/cancel", headers=who).status_code == 404
            assert client.get("/reports", headers=who).json() == []
        assert client.get(f"/reports/{job}/file").status_code == 401
        assert client.get(f"/reports/{job}/file", headers=bearer("ana", seconds=-3600)).status_code == 401
        tartu = {"kind": "leave", "period": "2026-09", "county": "Tartu"}
        assert client.post("/reports", json=tartu, headers=bearer("ana")).status_code == 403
        assert (
            client.post("/reports", json={**tartu, "county": "../x"}, headers=bearer("ana")).status_code
            == 422
        )
        assert client.post(f"/reports/{job}/cancel", headers=bearer("ana")).status_code == 409


UP = ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "%2e%2e%5c", "..%252f", "..%c0%af", "....//", "..;/")
TARGETS = ("secret.csv", "secret", "../secret.csv", "reports/../secret.csv")
PATHS = [up + target for up in UP for target in TARGETS]


@pytest.mark.one_database
def test_no_path_leads_out_of_the_folder(box: Sandbox, folder: ReportFolder) -> None:
    """Paths are sent to the application as they stand; a client would tidy them."""
    (folder.path.parent / "secret.csv").write_text("secret")
    (folder.path / "secret.csv").write_text("secret")
    token = bearer("audit", access.AUDITOR)["Authorization"].encode()
    web = create_web()
    assert len(set(PATHS)) == 40
    for path in PATHS:
        status, body = asyncio.run(request(web, f"/reports/{path}/file", token))
        assert status == 404 and b"secret" not in body, path
        for text in (path, unquote(path), unquote(unquote(path))):
            with pytest.raises(ValueError):
                folder.of(text)


async def request(web: Any, path: str, token: bytes) -> tuple[int, bytes]:
    """Status and body of a request, without a client between."""
    sent: list[Any] = []
    scope = {
        "type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"authorization", token)], "http_version": "1.1", "scheme": "http", "root_path": "",
        "server": ("test", 80), "client": ("test", 1), "state": {},
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await web(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("database", [[], ["--postgres"]], ids=["sqlite", "postgres"])
def test_killed_workers_write_the_same_files(example: Example, database: list[str]) -> None:
    facts = example("timesheets", "--rows", "40000", "--chaos", *database)
    assert (facts["files that differ"], facts["reports twice"], facts["workers killed"]) == ("0", "0", "3")
    assert facts["reports"] == "36" and facts["rows exported"] == "40,000"
