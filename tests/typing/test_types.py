"""What type checkers say about the public face: mypy and pyright, both strict."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def mypy(path: Path) -> dict[int, str]:
    """The errors of a file by line, as mypy finds them with the options of an application."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(HERE / "mypy.ini")]
    command += ["--no-error-summary", "--show-error-codes", str(path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    pattern = re.compile(rf"^{re.escape(str(path.relative_to(ROOT)))}:(\d+): error: (.*)$", re.MULTILINE)
    return {int(line): text for line, text in pattern.findall(run.stdout)}


def pyright(path: Path) -> dict[int, str]:
    """The errors of a file by line, as pyright finds them."""
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "--project",
        str(HERE),
        str(path),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(run.stdout)["generalDiagnostics"]
    return {
        item["range"]["start"]["line"] + 1: item["message"] for item in found if item["severity"] == "error"
    }


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_calls_are_accepted_and_wrong_ones_are_not(checker: object) -> None:
    assert callable(checker)
    right, wrong = HERE / "right.py", HERE / "wrong.py"
    assert checker(right) == {}
    marked = [
        number for number, line in enumerate(wrong.read_text().splitlines(), 1) if line.endswith("# wrong")
    ]
    assert len(marked) > 15
    assert sorted(checker(wrong)) == marked
