"""What every command of the control service prints, as sessions that are kept in golden/: one of tables, one of JSON.

WINDLASS_WRITE_GOLDEN=1 writes the files again; read the difference before it is committed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Windlass
from tests.cli.shop import TARGET, Shop
from windlass.cli import windlass as program
from windlass.features import open_store

GOLDEN = Path(__file__).parent / "golden"

SESSION = """
status
jobs ls
jobs ls state:failed -kind:site
jobs ls kind:nothing
jobs show {done}
jobs show {failed}
jobs show {counted}
jobs why {queued}
jobs why {waiting}
jobs why {scheduled}
jobs logs {done}
failures ls
phases ls
pipelines ls --app APP
pipelines show site --app APP
instances ls
rules ls
rules ls --open
schedules ls
schedules show tidy --next 1
schedules next tidy --count 2
submit hello name=7 number=3 --app APP
submit hello name=late --key inv-88 --app APP
jobs edit {queued} name=karl number=12 --priority 9 --reason typo --app APP
jobs run {scheduled} --reason hurry
jobs run {done}
jobs cancel {waiting} --dry-run
jobs cancel {waiting} --reason "ordered twice"
jobs cancel {done} {queued}
jobs delete {counted} --yes
failures retry hello --type ValueError --dry-run
failures retry hello --type ValueError --yes --reason mended
jobs cancel --where state:queued --yes
jobs retry --where "kind:hello" --yes
phases pause hello --reason "disk is full" --for 15m
phases ls
status
phases resume hello
schedules pause tidy --reason holidays
schedules run tidy
schedules resume tidy
schedules rm tidy
operations ls
audit --limit 8
audit --target schedule
token create dashboard --role view --role operate --tenant acme
token create nightly --role submit --subject anna --tenant acme --expires forever
token create dashboard --role view
token create boss --role viw
token ls
token revoke dashboard --reason leaked
token revoke dashboard
token ls
audit --target token
jobs show no-such-id
jobs ls stat:failed
jobs watch {site} {left}
jobs export kind:site
jobs retry {left} --reason "ordered again"
jobs retry {left}
operations show {operation}
operations stop {operation}
operations show {done}
instances processors {instance} hello 3 --reason "a long queue"
instances processors {instance} helo 3
instances drain {instance} --grace 1m --reason deploy --yes
instances drain {done} --yes
audit --target instance
rules rm both-sides --reason "one side is enough"
rules rm both-sides
audit --target rule
deploys mark "release 41"
deploys ls --since 1h
audit --target deploy
jobs stack {left}
""".strip().splitlines()


@pytest.mark.parametrize("output", ["table", "json"])
def test_every_command_prints_what_it_printed(filled: Shop, windlass: Windlass, output: str) -> None:
    parts = []
    for line in SESSION:
        if "{operation}" in line and "operation" not in filled.ids:
            filled.ids |= _operation_and_instance(filled.url)
        arguments = [word.format(**filled.ids).replace("APP", TARGET) for word in shlex.split(line)]
        command = " ".join(arguments[:2])
        takes = command not in _MESSAGES and (command != "jobs export" or output == "json")
        answer = windlass(*arguments, *(["-o", _LINES.get(command, output)] if takes else []))
        out = answer.out
        if (
            takes and out and output == "json" and command not in _LINES
        ):  # PostgreSQL keeps objects in an order of its own
            out = f"{json.dumps(json.loads(out), indent=1, sort_keys=True)}\n"
        parts.append(f"$ windlass {line}\n{out}{answer.err}-> {answer.code}\n")
    said = filled.normal("\n".join(parts))
    file = GOLDEN / f"{output}.txt"
    if os.environ.get("WINDLASS_WRITE_GOLDEN"):
        file.write_text(said)
    assert said == file.read_text()


def _operation_and_instance(url: str) -> dict[str, str]:
    """The last operation of the session, and an instance that serves one phase and reads no request."""
    with open_store(url) as store:
        begun = store.operations.list().operations[0]
        known = {"phases": ["hello"], "host": "host-b", "pid": 7}
        instance = store.join(lease=timedelta(hours=1), info=known).id
    return {"operation": begun.id, "instance": instance}


_LINES = {"jobs export": "jsonl"}
"""Commands that print while they read: a line for each job."""

ELSEWHERE = {
    "completion": "test_terminal.py",
    "config show": "test_config.py",
    "db merge-history": "test_db.py",
    "db migrate": "test_db.py",
    "db prune": "test_db.py",
    "db sql": "test_db.py",
    "db status": "test_db.py",
    "db tables": "test_db.py",
    "demo": "test_demo.py",
    "dev": "test_dev.py",
    "doctor": "test_doctor.py",
    "init": "test_init.py",
    "serve": "../api/test_serving.py",
    "top": "test_top.py",
    "worker": "test_worker.py",
}
"""Commands whose output depends on the machine, on settings or on time, and the module that tests it."""


def commands(command: click.Command = program, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    for name, sub in command.commands.items():
        yield from commands(sub, (*path, name))


def test_every_command_is_in_the_session_or_tested_elsewhere() -> None:
    every = set(commands())
    shown = {name for name in every if any(f"{line} ".startswith(f"{name} ") for line in SESSION)}
    assert shown | ELSEWHERE.keys() == every and not shown & ELSEWHERE.keys()
    assert all((GOLDEN.parent / module).exists() for module in ELSEWHERE.values())


_MESSAGES = {
    "jobs stack",
    "jobs watch",
    "operations stop",
    "phases pause",
    "phases resume",
    "rules rm",
    "schedules pause",
    "schedules resume",
    "schedules rm",
    "token revoke",
}
"""Commands that print a message and no data."""
