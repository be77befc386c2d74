"""What happens before any command does something."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.conftest import Windlass

pytestmark = pytest.mark.timing

HEAVY = {
    "pydantic",
    "pydantic_core",
    "psycopg",
    "psycopg_pool",
    "sqlite3",
    "rich",
    "curses",
    "asyncio",
    "windlass.store",
}

PINNED = {
    "windlass",
    "windlass.cli",
    "windlass.errors",
    "windlass.observe",
    "windlass.observe.redaction",
    "windlass.observe.safe_text",
    "windlass.observe.secret_labels",
    "windlass.observe.secret_names",
    "windlass.observe.secret_text",
    "windlass.ranges",
    "windlass.urls",
}
"""What `windlass --help` imports of Windlass beside the modules of cli/ and errors/."""


def test_help_imports_click_and_what_is_pinned_here() -> None:
    code = "import sys; import click; before = {*sys.modules}; from windlass.cli import main; main(['--help']); print(*({*sys.modules} - before))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(answer.stdout.splitlines()[-1].split())
    own = {
        name
        for name in loaded
        if name.startswith("windlass") and "cli." not in name and "errors." not in name
    }
    others = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert own == PINNED
    assert others == {"windlass", "click"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["db", "--help"],
        ["db", "prune", "--help"],
        ["demo", "--help"],
        ["jobs", "--help"],
        ["jobs", "cancel", "--help"],
        ["submit", "--help"],
        ["completion", "zsh"],
        ["dev", "--help"],
        ["doctor", "--help"],
        ["init", "--help"],
        ["top", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    """`windlass --help` answers at once because drivers and models are loaded by the commands that need them."""
    code = (
        "import sys; from windlass.cli import main; main(sys.argv[1:]) if len(sys.argv) > 1 else None; "
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert set(answer.stderr.split()) & HEAVY == set()


def test_rich_is_not_used_by_a_command(tmp_path) -> None:
    """Tables are plain text: no command needs rich."""
    code = "import sys; from windlass.cli import main; main(['db', 'status']); print('rich' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert answer.stdout.splitlines()[-1] == "False"


def test_python_dash_m_is_the_same_program() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "windlass", "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout == f"windlass {version('windlass')}\n"


def test_usage_mistakes_end_with_2(windlass: Windlass) -> None:
    for arguments in (
        ["nonsense"],
        ["db", "nonsense"],
        ["db", "status", "-o", "xml"],
        ["db", "migrate", "--wait", "-1"],
    ):
        answer = windlass(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ") and answer.err.count("\n") == 1
