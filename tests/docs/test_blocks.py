"""Every code block of the documentation is run, or checked as far as it can be, or says why it is not run.

* Python and console blocks are run (examples.py), or have ``<!-- not run: REASON -->`` above them; Python must compile either way.
* Shell blocks are for machines that a test is not; the commands of Windlass in them must exist, with their options.
* TOML, INI, YAML, JSON and PromQL must be readable, and their settings, variables, commands and metrics must exist.
* SQL says where it is run. Mermaid drawings have a picture for the site.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from docs.site.hooks import drawing
from tests.observe.test_metrics import _metrics
from windlass.cli import windlass
from windlass.setting_keys import KNOWN

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TESTED = {
    "docs/guides/from-celery.md": "tests/docs/test_from_celery.py",
    "docs/guides/postgresql.md": "tests/docs/test_postgres_roles.py",
}
"""Pages with a test of their own: it runs their Python or SQL."""
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"(?:^|[\s/])windlass ((?:'[^'\n]*'|[^|;&#<>\n`\\]|\\\n)+)", re.MULTILINE)
METRIC = re.compile(r"\bwindlass_\w+")
VARIABLE = re.compile(r"\bWINDLASS_[A-Z_]+")
OTHER_VARIABLES = {
    "WINDLASS_SERVER",
    "WINDLASS_TOKEN",
    "WINDLASS_CONFIG",
    "WINDLASS_DEMO",
    "WINDLASS_TEST_LONG",
}
OTHER_NAMES = ("windlass_app", "windlass_examples", "windlass_owner", "windlass_worker")
TABLES = ("worker.groups", "worker.processors")


class Block(NamedTuple):
    page: str
    line: int
    mark: str
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        is_program_of_the_readme = self.page == "README.md" and self.language == "python"
        return self.mark == "runnable" or self.mark.startswith("file: ") or is_program_of_the_readme

    @property
    def reason(self) -> str:
        return (
            self.mark.removeprefix("not run: ")
            if self.mark.startswith("not run: ")
            else TESTED.get(self.page, "")
        )


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(
                str(page.relative_to(ROOT)), line, found["mark"] or "", found["language"], found["text"]
            )


BLOCKS = list(blocks())
LANGUAGES = {
    "console",
    "ini",
    "json",
    "mermaid",
    "promql",
    "py",
    "python",
    "shell",
    "sql",
    "text",
    "toml",
    "yaml",
}


def of(*languages: str) -> Any:
    return pytest.mark.parametrize(
        "block", [block for block in BLOCKS if block.language in languages], ids=lambda block: block.place
    )


def test_every_block_has_a_language_that_is_checked() -> None:
    assert [block.place for block in BLOCKS if block.language not in LANGUAGES] == []
    assert [
        block.place for block in BLOCKS if block.language == "py" and block.page != "docs/reference/python.md"
    ] == []


def test_what_is_not_run_has_a_reason() -> None:
    languages = ("python", "console", "sql")
    missing = [b.place for b in BLOCKS if b.language in languages and not b.is_run and not b.reason]
    assert missing == [], "mark it <!-- runnable -->, <!-- file: NAME --> or <!-- not run: REASON -->"


@of("python")
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


@of("python")
def test_no_app_has_a_url_in_code(block: Block) -> None:
    """Environment and file decide where jobs are: a program that is copied from a page uses the database of its reader."""
    for call in ast.walk(ast.parse(block.text)):
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "App":
            given = ["url"] * len(call.args) + [str(keyword.arg) for keyword in call.keywords]
            assert "url" not in given, f"{block.place}, line {call.lineno}: write App()"


@of("console", "shell")
def test_commands_exist(block: Block) -> None:
    check_commands(block.text, block.place)
    check_names(block.text, block.place)


@of("toml")
def test_settings_exist(block: Block) -> None:
    for key in keys(tomllib.loads(block.text)):
        assert key in KNOWN or key.startswith(TABLES), f"{block.place}: {key}"


@of("ini")
def test_units_and_files_are_readable(block: Block) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(block.text if "[" in block.text else f"[server]\n{block.text}")
    check_commands(block.text, block.place)


@of("yaml")
def test_manifests_are_readable(block: Block) -> None:
    documents = list(yaml.safe_load_all(block.text))
    assert documents and all(isinstance(one, dict) for one in documents), block.place
    for value in values(documents):
        if isinstance(value, list) and value[:1] == ["windlass"]:
            check_command([str(word) for word in value[1:]], block.place)
    check_names(block.text, block.place)


@of("json")
def test_json_is_readable(block: Block) -> None:
    for line in block.text.splitlines():
        json.loads(line)


@of("promql")
def test_queries_name_metrics_that_exist(block: Block) -> None:
    assert METRIC.search(block.text)
    check_names(block.text, block.place)


@of("mermaid")
def test_drawings_have_a_picture(block: Block) -> None:
    assert drawing(block.text).exists(), f"{block.place}: make it with `python -m docs.site.draw`"


def keys(table: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from keys(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def values(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from values(one)


def check_commands(text: str, place: str) -> None:
    for found in COMMAND.findall(text):
        check_command(shlex.split(found.replace("\\\n", " "), comments=True), place)


def check_command(words: list[str], place: str) -> None:
    """The command exists, and takes these options."""
    command: click.Command = windlass
    context = click.Context(windlass)
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            break
        inner = command.get_command(context, words[0])
        if inner is None and command is windlass and not words[0].isalpha():
            return  # a sentence, no command
        assert inner is not None, f"{place}: windlass {' '.join(words)}"
        command, words = inner, words[1:]
        context = click.Context(command, parent=context)
    try:
        # A condition of a filter may begin with "-".
        command.make_parser(context).parse_args([word for word in words if not re.match(r"-\w+:", word)])
    except click.UsageError as error:
        raise AssertionError(f"{place}: {error.format_message()}") from None


def check_names(text: str, place: str) -> None:
    """Metrics and variables exist."""
    for name in METRIC.findall(text):
        is_ours = name in metrics() or name.startswith(OTHER_NAMES)
        assert is_ours, f"{place}: {name}"
    variables = {"WINDLASS_" + key.upper().replace(".", "_") for key in KNOWN} | OTHER_VARIABLES
    for name in VARIABLE.findall(text):
        assert name in variables or name.startswith(("WINDLASS_TEST_", "WINDLASS_BENCH_")), f"{place}: {name}"


@cache
def metrics() -> frozenset[str]:
    families = text_string_to_metric_families(_metrics().render().decode())
    return frozenset(sample.name for family in families for sample in family.samples)
