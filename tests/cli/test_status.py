"""``windlass status`` and ``windlass instances``, with and without a worker."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Windlass
from tests.cli.shop import TARGET, Shop
from tests.waiting import eventually
from windlass.cli.database import choose


def test_status_is_good_while_all_queued_jobs_are_served(shop: Shop, windlass: Windlass) -> None:
    assert windlass("status").code == 0, "nothing to do is good"
    shop.module.hello.options(delay=3600).enqueue(name="later")
    assert windlass("status").code == 0
    job = shop.module.hello.enqueue(name="anna")
    alone = windlass("status", "-o", "json")
    (record,) = alone.json()
    assert (alone.code, record["status"], record["instances"]) == (1, "degraded", 0)
    assert "no living instance serves the phase hello" in record["problems"][0]
    (hello,) = [phase for phase in record["phases"] if phase["phase"] == "hello"]
    assert (hello["queued"], hello["scheduled"], hello["why_waiting"]) == (
        1,
        1,
        "no living instance serves it",
    )
    with shop.working():
        eventually(lambda: job.state().is_final, shop.app.phases.counts)
        served = windlass("status", "-o", "json")
        assert (served.code, served.json()[0]["instances"]) == (0, 1)


def test_a_pause_is_no_problem(shop: Shop, windlass: Windlass) -> None:
    shop.module.hello.enqueue(name="anna")
    assert windlass("phases", "pause", "hello", "--reason", "disk is full").code == 0
    answer = windlass("status")
    assert answer.code == 0 and "paused until it is resumed: disk is full" in answer.out


def test_status_is_down_with_the_database(windlass: Windlass) -> None:
    answer = windlass("status", "--url", "postgresql://joe@127.0.0.1:1/db")
    assert (answer.code, answer.out) == (69, "") and "check that it runs" in answer.err


def test_a_server_that_is_silent_is_given_up(windlass: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_CONNECT_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://joe@127.0.0.1:{server.getsockname()[1]}/db"
        answer = windlass("status", "--url", url)
    assert answer.code == 69 and len(answer.err.splitlines()) == 1


def _refuse_pauses(seconds: float) -> None:
    raise AssertionError(f"the command paused for {seconds} s")


def test_status_is_down_with_the_server(windlass: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.client.sending.time", SimpleNamespace(sleep=_refuse_pauses))
    answer = windlass("status", "--server", "http://127.0.0.1:1")
    assert (answer.code, answer.out) == (69, "")
    (line,) = answer.err.splitlines()
    assert "http://127.0.0.1:1 did not respond" in line and "check the address" in line


def test_a_rest_server_that_is_silent_is_given_up(windlass: Windlass) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        answer = windlass("jobs", "ls", "--server", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert answer.code == 69 and "check the address" in answer.err and len(answer.err.splitlines()) == 1
        server.accept()[0].close()
        with pytest.raises(BlockingIOError):  # no second try
            server.accept()


def test_commands_wait_three_seconds_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://joe@host/db"
    assert choose(None, url).connect_timeout == 3.0
    monkeypatch.setenv("WINDLASS_DATABASE_CONNECT_TIMEOUT", "7s")
    assert choose(None, url).connect_timeout == 7.0


def test_instances_show_their_processors(shop: Shop, windlass: Windlass) -> None:
    with shop.working() as engine:

        def processors() -> int:  # the first boards of an instance come before its pools
            (view,) = shop.app.instances.list()
            return sum(item.size for item in view.phases if item.name == "hello")

        eventually(processors, shop.app.instances.list)
        eventually(lambda: shop.app.instances.list()[0].state == "running", shop.app.instances.list)
        (record,) = windlass("instances", "ls", "-o", "json").json()
        assert (record["id"], record["state"]) == (engine.id, "running")
        phases = {item["phase"]: item for item in record["phases"]}
        assert phases["hello"] == {
            "phase": "hello", "processors": 10, "busy": 0, "error": 0, "queue": 0, "held_by": None,
        }  # fmt: skip
        lines = windlass("instances", "ls").out.splitlines()
        assert lines[0].split()[:6] == ["ID", "HOST", "PID", "STATE", "BUSY", "PROCESSORS"]
        assert engine.id in lines[1] and "site:fetch" in lines[1]
    assert windlass("instances", "ls", "-o", "json").json() == []


def test_pipelines_come_from_the_app(shop: Shop, windlass: Windlass) -> None:
    assert windlass("pipelines", "ls").code == 2
    answer = windlass("pipelines", "show", "sit", "--app", TARGET)
    assert answer.code == 2 and "did you mean site?" in answer.err


def test_an_instance_is_changed_and_drained(shop: Shop, windlass: Windlass) -> None:
    with shop.working() as engine:
        more = windlass("instances", "processors", engine.id, "hello", "3", "--wait", "-o", "json")
        (request,) = more.json()
        assert (more.code, request["state"], request["number"]) == (0, "done", 3)
        assert windlass("instances", "processors", engine.id, "helo", "3").code == 2
        asked = windlass("instances", "drain", engine.id)
        assert asked.code == 2 and "which runs 0 jobs?" in asked.err
        (request,) = windlass("instances", "drain", engine.id, "--yes", "--wait", "-o", "json").json()
        assert (request["act"], request["state"]) == ("drain", "done")
        (record, *_) = windlass("audit", "--target", "instance", "-o", "json").json()
        assert (record["act"], record["name"]) == ("instance.drain", engine.id)
    assert windlass("instances", "drain", engine.id, "--yes").code == 3
