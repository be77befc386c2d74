"""The documentation says what the code does: generated parts are current, named tests and linked pages exist."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import pytest

from docs.site.hooks import ELSEWHERE
from windlass import errors
from windlass.cli import windlass
from windlass.cli.exit_codes import ExitCode
from windlass.model.lifecycle import MOVES
from windlass.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@cache
def _build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("windlass_docs_build", DOCS / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_current() -> None:
    """`./dev docs` would change nothing."""
    for path, text in _build().pages().items():
        assert path.read_text("utf-8") == text, f"{path.name} is out of date; run ./dev docs"


def test_the_drawing_has_every_move_and_no_other() -> None:
    drawn = set()
    for line in _build().state_drawing().splitlines():
        if match := re.fullmatch(r"\s+(\S+) --> (\S+): (.+)", line):
            drawn |= {(match[1], match[2], verb) for verb in match[3].split(", ")}
    meant = {
        (str(source), str(target), verb)
        for verb, move in MOVES.items()
        for source in move.sources or ("[*]",)
        for target in move.targets
        if source != target
    }
    assert drawn == meant


def test_every_error_has_its_line() -> None:
    page = (DOCS / "reference" / "errors.md").read_text("utf-8")
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.WindlassError):
            assert f"| `{name}` | `{kind.code}` |" in page
            assert f" {name}" in page.partition("| class |")[0] or name == "WindlassError"


def test_every_exit_code_has_its_line() -> None:
    page = (DOCS / "reference" / "cli.md").read_text("utf-8")
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert listed == {int(code) for code in ExitCode}


def test_every_setting_has_its_line() -> None:
    page = (DOCS / "reference" / "settings.md").read_text("utf-8")
    for field in fields(Settings):
        assert re.search(rf"^\| `{field.name}` \| \S+ \| .*\| \S.* \|$", page, re.MULTILINE), field.name


def test_every_command_and_option_is_listed() -> None:
    page = (DOCS / "reference" / "cli.md").read_text("utf-8")
    for name, command in _commands(windlass, "windlass"):
        assert f"`{name}" in page, name
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert any(text in page for text in option.opts), f"{name} {option.opts[0]}"


def _commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    for label, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{name} {label}")
        else:
            yield f"{name} {label}", command


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_guarantee_has_a_number_of_its_own() -> None:
    numbers = re.findall(r"^### (I-\d+):", (DOCS / "guarantees.md").read_text("utf-8"), re.MULTILINE)
    assert len(numbers) == len(set(numbers))


def test_nothing_refers_to_lists_that_are_not_in_the_repository() -> None:
    """A number of a guarantee (I-7) leads to its entry; a bare letter and number, or a document elsewhere, leads a reader nowhere."""
    known = set(re.findall(r"^### (I-\d+):", (DOCS / "guarantees.md").read_text("utf-8"), re.MULTILINE))
    strangers = re.compile(
        r"(?<![%!])\b[A-NS]\d{1,2}\b|\bT\d\d\b|\bfinding \d+|\bshared/\w+\.md|\bthe design\b", re.ASCII
    )
    found = []
    for path in (
        path
        for folder in ("src", "tests", "bench", "chaos", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".sql", ".md")
    ):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            missing = [name for name in re.findall(r"\bI-\d+\b", line) if name not in known]
            quoted = (
                path == Path(__file__) or "C0, DEL, C1" in line
            )  # control characters have such names, too
            if missing or (strangers.search(line) and not quoted):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_every_test_named_as_proof_exists() -> None:
    text = (DOCS / "guarantees.md").read_text("utf-8")
    named = re.findall(r"`(tests/[^:`]+\.py)::(\w+)`", text)
    assert len(named) > 30
    missing = [f"{path}::{name}" for path, name in named if name not in _functions(path)]
    assert missing == []


def test_every_guarantee_names_a_test() -> None:
    entries = re.split(r"^### ", (DOCS / "guarantees.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert len(entries) >= 20
    for entry in entries:
        assert "::test_" in entry, entry.partition("\n")[0]


def test_the_site_has_every_page() -> None:
    """A page that mkdocs.yml does not name has no way to it, and the build of the site would fail."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = set(re.findall(r"(\S+\.md)$", nav, re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert named - set(ELSEWHERE.values()) == pages
    assert named - pages == set(ELSEWHERE.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(there), f"{page.name} links to {target}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
