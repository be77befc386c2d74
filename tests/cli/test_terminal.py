"""What goes to a terminal and what goes elsewhere: cursor codes, colours, widths; and the scripts of shells."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Windlass
from tests.cli.shop import Shop
from windlass.cli.completion import SHELLS
from windlass.cli.terminal import LiveLines, fitted, painted


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")


def test_lines_replace_each_other_on_a_terminal() -> None:
    stream = Terminal()
    lines = LiveLines(stream)
    lines.show(["one", "two"])
    lines.show(["one", "three"])
    lines.clear()
    assert (
        stream.getvalue() == "one\x1b[K\ntwo\x1b[K\n\x1b[J\x1b[2Fone\x1b[K\nthree\x1b[K\n\x1b[J\x1b[2F\x1b[J"
    )


def test_only_changes_are_printed_elsewhere() -> None:
    stream = io.StringIO()
    lines = LiveLines(stream)
    lines.show(["one", "two"])
    lines.show(["one", "three"])
    lines.clear()
    assert stream.getvalue() == "one\ntwo\nthree\n"


def test_colours_are_for_terminals_that_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert painted("bad", "red", Terminal()) == "\x1b[31mbad\x1b[0m"
    assert painted("bad", "red", io.StringIO()) == "bad"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("bad", "red", Terminal()) == "bad"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert painted("bad", "red", Terminal()) == "bad"


def test_only_a_terminal_cuts_lines() -> None:
    line = "a-name-that-is-longer-than-the-terminal"
    assert fitted(line, Terminal()) == "a-name-that-is-long…"
    assert fitted(line, io.StringIO()) == line


def test_a_table_in_a_pipe_has_no_codes_and_whole_names(filled: Shop, windlass: Windlass) -> None:
    for command in (("status",), ("jobs", "ls"), ("failures", "ls")):
        out = windlass(*command).out
        assert "\x1b" not in out and "…" not in out
    assert filled.ids["failed"] in windlass("jobs", "ls").out


# ---------------------------------------------------------------------- completion


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(windlass: Windlass, shell: str) -> None:
    answer = windlass("completion", shell)
    assert answer.code == 0 and "_WINDLASS_COMPLETE" in answer.out
    assert f"{shell}_complete" in answer.out


def test_the_script_of_bash_can_be_read() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "windlass", "completion", "bash"], capture_output=True, check=True
    )
    subprocess.run(["bash", "-n"], input=made.stdout, check=True)


@pytest.mark.one_database
def test_commands_and_ids_are_completed(filled: Shop) -> None:
    assert {"ls", "show", "why"} <= set(_completed(filled, "jobs", ""))
    assert _completed(filled, "jobs", "sh") == ["show"]
    assert set(_completed(filled, "jobs", "show", "")) == set(filled.ids.values())
    assert _completed(filled, "jobs", "show", filled.ids["done"][:30]) == [
        job for job in reversed(filled.ids.values()) if job.startswith(filled.ids["done"][:30])
    ]
    assert "tidy" in _completed(filled, "schedules", "pause", "")
    assert "site:fetch" in _completed(filled, "phases", "pause", "site")


def test_a_database_that_is_away_completes_nothing(filled: Shop) -> None:
    assert _completed(filled, "jobs", "show", "", url="postgresql://joe@127.0.0.1:1/db") == []


def _completed(shop: Shop, *words: str, url: str | None = None) -> list[str]:
    """What PowerShell is offered for the last of these words."""
    environment = {
        **os.environ,
        "WINDLASS_DATABASE_URL": url or shop.url,
        "_WINDLASS_COMPLETE": "powershell_complete",
        "COMP_WORDS": "\n".join(("windlass", *filter(None, words))),
        "COMP_WORD": words[-1],
    }
    answer = subprocess.run(
        [sys.executable, "-c", "import sys; from windlass.cli import main; sys.argv[0] = 'windlass'; sys.exit(main())"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.stderr == "", json.dumps(answer.stderr)
    return [line.split("\t")[0] for line in answer.stdout.splitlines() if line]
