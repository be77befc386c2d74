"""Runs of ``windlass demo`` as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.waiting import PATIENCE

Start = Callable[..., subprocess.Popen[str]]


def demos(folder: Path, *always: str) -> Iterator[Start]:
    """Starts demos in a folder; the demos that still run are ended after the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "windlass", "demo", "--once", "-o", "jsonl", *always, *arguments]
        demo = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(demo)
        return demo

    yield run
    for demo in started:
        demo.kill()
        demo.communicate()


def finish(demo: subprocess.Popen[str]) -> tuple[dict[str, float], str]:
    """Wait for the end of a demo; returns its facts, and what it wrote to standard error."""
    out, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 0, err
    return {row["what"]: row["count"] for row in map(json.loads, out.splitlines())}, err
