"""``deploy/Dockerfile``, without an engine that builds it: what it copies, what it installs, and the commands that it runs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.docs.test_blocks import check_command, check_commands

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "Dockerfile"
GUIDE = ROOT / "docs" / "guides" / "containers.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OF_THE_APPLICATION = {"requirements.txt", "."}
"""The sources that it copies from the folder in which it is built, which is an application's."""


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction and its arguments; comments are left out and continued lines are joined."""
    lines = re.sub(r"^#.*\n", "", FILE.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(str.strip, lines.splitlines()):
        name, _, arguments = line.partition(" ")
        yield name, " ".join(arguments.split())


def all_of(name: str) -> list[str]:
    return [arguments for found, arguments in instructions() if found == name]


def test_what_it_copies_is_in_the_folder_of_the_application_or_made_before() -> None:
    stages = {found[1] for text in all_of("FROM") if (found := re.search(r" AS (\w+)$", text))}
    made = re.findall(r"python -m venv (\S+)", " ".join(all_of("RUN")))
    from_folder = set()
    for copied in all_of("COPY"):
        *words, _ = copied.split()
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages and words[1:] == made
        else:
            from_folder.update(words)
    assert from_folder == OF_THE_APPLICATION
    said = (FILE.read_text("utf-8").partition("\nARG")[0], GUIDE.read_text("utf-8"))
    assert all("requirements.txt" in text for text in said), "the reader is told which file it needs"


def test_the_requirements_that_it_asks_for_exist() -> None:
    for text in (FILE.read_text("utf-8"), GUIDE.read_text("utf-8")):
        (extras,) = re.findall(r"windlass\[([\w,-]+)\]", text)
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_its_python_is_supported_and_its_programs_are_on_the_path() -> None:
    (python,) = all_of("ARG")
    version = python.removeprefix("PYTHON=")
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert "PATH=/venv/bin:$PATH" in all_of("ENV")[0].split()


def test_its_commands_exist_and_are_in_exec_form() -> None:
    """A shell would not pass SIGTERM on to the worker."""
    (command,) = all_of("CMD")
    program, *words = json.loads(command)
    assert (program, words[0]) == ("windlass", "worker") and not all_of("ENTRYPOINT")
    check_command(words, "deploy/Dockerfile: CMD")
    header = FILE.read_text("utf-8").partition("\nARG")[0]
    shown = re.findall(r"\bshop (windlass .+)$", header, re.MULTILINE)
    assert len(shown) == 2
    for text in shown:
        check_commands(text, "deploy/Dockerfile: the commands at its top")


def test_its_ports_are_those_of_its_commands() -> None:
    ports = set(" ".join(all_of("EXPOSE")).split())
    used = set(re.findall(r":(\d{4})\b|--port (\d{4})", FILE.read_text("utf-8")))
    assert ports == {port for pair in used for port in pair if port}
