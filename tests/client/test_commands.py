"""Commands with ``--server``: they print what they print on the database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import click
import pytest

from tests.client.conftest import Server
from tests.waiting import eventually
from windlass import AuthenticationError
from windlass.cli import main
from windlass.cli.completion import complete_jobs, complete_kinds
from windlass.cli.database import ChosenServer
from windlass.cli.top import _samples
from windlass.client import Client
from windlass.control.service import Control
from windlass.model import NewSchedule
from windlass.model.rule import Rule

NO_ID = "01a1eeb3-7ddf-7d79-9983-2c11d739063d"


Said = tuple[int, str, str]
Run = Callable[..., Said]


def both(run: Run, server: Server, *arguments: str) -> tuple[Said, Said]:
    """What a command says through the server and on its database, where both are of the same state: workers and clocks go on."""
    found: list[Said] = []

    def is_one_state() -> bool:
        found[:] = [
            run(*arguments, *place) for place in (("--url", server.database), ("--server", server.url)) * 2
        ]
        return found[0] == found[2]

    eventually(is_one_state)
    return found[1], found[2]


@pytest.fixture
def run(client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command: exit code, stdout, stderr."""
    monkeypatch.setenv("WINDLASS_TOKEN", "token-of-the-boss")
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_reading_commands_print_the_same(run: Run, server: Server, client: Client) -> None:
    done = client.submit("double", {"number": 4})
    failed = client.submit("fail")
    queued = client.submit("idle", {"number": 5}, priority=7)
    waiting = client.submit("idle", after=[queued], correlation_id="cli")
    done.wait(60), failed.wait(60)
    client.phases.pause("idle", "disk is full")
    for job in (done, failed, queued, waiting):
        for verb, what in (("show", job.id), ("logs", job.id), ("ls", f"id:{job.id}")):
            remote, local = both(run, server, "jobs", verb, what, "-o", "json")
            assert remote == local and remote[0] == 0
    for command in (
        ("jobs", "watch", done.id, failed.id),
        ("jobs", "why", waiting.id),
        ("jobs", "export", "correlation:cli"),
        ("jobs", "ls", "stat:failed"),
        ("jobs", "cancel", "--where", "correlation:cli", "--dry-run"),
        ("operations", "ls"),
    ):
        remote, local = both(run, server, *command)
        assert (remote[0], remote[1]) == (local[0], local[1]), command
    remote, local = both(run, server, "jobs", "show", NO_ID)
    assert remote[0] == local[0] == 3 and NO_ID in remote[2]
    client.phases.resume("idle")


def test_jobs_are_submitted_and_changed_through_a_server(run: Run, server: Server, client: Client) -> None:
    place = ("--server", server.url)
    code, out, _ = run("submit", "double", "number=21", "--wait", "-o", "json", *place)
    assert (code, json.loads(out)[0]["result"]) == (0, 42)
    code, _, _ = run("submit", "fail", "--wait", *place)
    assert code == 1
    job = client.submit("idle", {"number": 1})
    code, out, _ = run("jobs", "edit", job.id, "number=2", "-o", "json", *place)
    assert (code, json.loads(out)[0]["args"]) == (0, {"number": 2})
    assert run("jobs", "cancel", job.id, "--reason", "r", *place)[0] == 0
    assert client.jobs.get(job.id).state == "cancelled"
    assert run("jobs", "retry", job.id, *place)[0] == 0
    assert run("phases", "pause", "idle", "--reason", "r", *place)[0] == 0
    assert run("phases", "resume", "idle", *place)[0] == 0
    assert run("jobs", "ls", "--url", "sqlite:///x.db", *place)[0] == 2


def test_commands_about_the_whole_print_the_same(run: Run, server: Server, client: Client) -> None:
    server.app.store.schedules.put(NewSchedule(name="weekly", kind="idle", expression="0 2 * * 1"))
    client.submit("fail", {"why": "whole"}).wait(60)
    place = ("--server", server.url)
    for command in (
        ("failures", "ls"),
        ("schedules", "ls"),
        ("schedules", "show", "weekly"),
        ("schedules", "next", "weekly"),
        ("rules", "ls"),
        ("rules", "ls", "--open"),
        ("audit", "--target", "schedule"),
    ):
        remote, local = both(run, server, *command, "-o", "json")
        assert remote == local and remote[0] == 0, command
    code, out, _ = run("status", "-o", "json", *place)
    assert {one["phase"] for one in json.loads(out)[0]["phases"]} >= {"double", "fail"} and code in (0, 1)
    code, out, _ = run("instances", "ls", "-o", "json", *place)
    (alive,) = [one for one in json.loads(out) if one["state"] == "running"]
    assert code == 0 and alive["lease_seconds"] == 30.0
    assert run("instances", "processors", alive["id"], "double", "4", "--wait", *place)[0] == 0
    code, out, _ = run("pipelines", "ls", "-o", "json", *place)
    assert [one["pipeline"] for one in json.loads(out)] == ["double", "fail", "idle"] and code == 0
    code, out, _ = run("pipelines", "show", "double", "-o", "json", *place)
    assert (code, json.loads(out)[0]["executor"]) == (0, "thread")
    assert run("pipelines", "show", "nothing", *place)[0] != 0
    assert run("schedules", "pause", "weekly", *place)[0] == 0
    assert client.schedules.get("weekly").state == "paused"
    assert run("schedules", "resume", "weekly", *place)[0] == 0
    assert run("schedules", "run", "weekly", *place)[0] == 0
    assert run("schedules", "rm", "weekly", *place)[0] == 0
    assert client.schedules.list() == []
    assert run("failures", "retry", "fail", "--dry-run", *place)[0] == 0
    code, out, _ = run("deploys", "mark", "release 42", "-o", "json", *place)
    assert (code, json.loads(out)[0]["text"]) == (0, "release 42")
    remote, local = both(run, server, "deploys", "ls")
    assert remote == local and "release 42" in remote[1]


def test_rules_are_removed_and_stacks_asked_for_through_a_server(
    run: Run, server: Server, client: Client
) -> None:
    rule = Rule(name="total", parents=("double", "fail"), create="idle", phase="idle", key=("args.number",))
    server.app.store.rules.put(rule)
    code, _, err = run("rules", "rm", "total", "--reason", "r", "--server", server.url)
    assert (code, err) == (0, "total is removed\n")
    job = client.submit("idle")
    code, _, err = run("jobs", "stack", job.id, "--timeout", "1s", "--server", server.url)
    assert code == 4 and "no instance runs it" in err


def test_names_and_ids_are_completed_from_a_server(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", "token-of-the-boss")
    job = client.submit("idle")
    context = click.Context(click.Command("show"))
    context.params = {"server": server.url, "target": None, "url": None}
    parameter = click.Argument(["id"])
    assert job.id in [item.value for item in complete_jobs(context, parameter, job.id[:30])]
    assert [item.value for item in complete_kinds(context, parameter, "dou")] == ["double"]


def test_top_shows_the_samples_of_a_server(server: Server, client: Client) -> None:
    client.submit("double", {"number": 1}).wait(60)
    with _samples(ChosenServer(server.url), cast("Control", client)) as newest:
        sample = eventually(newest, "a sample came")
    assert "double" in sample.phases
    stranger = Client(server.url, token="wrong")
    refused = pytest.raises(AuthenticationError)
    with stranger, _samples(ChosenServer(server.url), cast("Control", stranger)) as newest, refused:
        eventually(newest)
