"""Programs in a folder of their own, as a user would start them, with the examples of the documentation as their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.examples import File, steps
from tests.waiting import PATIENCE

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guides"


def write_example(page: str, folder: Path) -> None:
    """The files of a guide."""
    for step in steps(DOCS / f"{page}.md"):
        if isinstance(step, File):
            path = folder / step.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text, "utf-8")


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would configure Windlass or a framework."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WINDLASS_", "FLASK_", "DJANGO_"))
    }
    return {**ours, "PYTHONUNBUFFERED": "1", **more}


def run(folder: Path, *arguments: str, expect: int = 0, **variables: str) -> str:
    """Run Python with these arguments; what it printed."""
    answer = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=2
        * PATIENCE,  # Python starts up to three times: a worker imports the framework, and so does the child of a job
    )
    assert answer.returncode == expect, (
        f"{arguments} ended with {answer.returncode}\n{answer.stdout}{answer.stderr}"
    )
    assert "ResourceWarning" not in answer.stderr, answer.stderr
    return answer.stdout if expect == 0 else answer.stdout + answer.stderr
