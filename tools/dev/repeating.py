"""The same tests many times, beside busy loops; every result is a line of a file, and the next call goes on from there."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tools.dev.running import STOPPED
from tools.dev.steps import ROOT, say

RESULTS = ROOT / ".dev-results.jsonl"
BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):  # it ends with whoever started it, however and however early that ends
    for _ in range(200_000):
        pass
"""


@dataclass(frozen=True)
class Repetition:
    """So many runs of one command. Runs of the same commit, Python, load and arguments that the file has already count."""

    times: int
    load: int
    python: str
    arguments: list[str]
    results: str

    def run(self, once: Callable[..., int]) -> int:
        """Run what is missing; 0 where all runs passed, those of earlier calls included."""
        key = {
            "commit": _commit(),
            "python": self.python,
            "load": self.load,
            "arguments": self.arguments,
        }
        done = [line for line in _lines(Path(self.results)) if key.items() <= line.items()]
        if done:
            say(f"dev: {len(done)} of {self.times} runs are in {self.results}; going on from there")
        while len(done) < self.times:
            say(f"dev: run {len(done) + 1} of {self.times}, Python {self.python}, {self.load} busy loops")
            result = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **key}
            with _busy(self.load), tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                report = Path(folder) / "report.xml"
                code = once(f"--junitxml={report}")
                if code in STOPPED:
                    return code
                result |= {"seconds": round(time.monotonic() - began, 1), "exit": code, **_read(report)}
            with Path(self.results).open("a") as file:
                file.write(json.dumps(result) + "\n")
            done.append(result)
        return self._told(done)

    def _told(self, done: list[dict[str, Any]]) -> int:
        bad = [line for line in done if line["exit"] != 0]
        seconds = [line["seconds"] for line in done]
        spread = f"{min(seconds):.0f} to {max(seconds):.0f} s each" if seconds else "no run"
        say(f"dev: {len(done) - len(bad)} of {len(done)} runs passed ({spread}); all are in {self.results}")
        for line in bad:
            names = ", ".join(line["failures"]) or f"exit code {line['exit']}"
            say(f"dev: FAILED at {line['at']}: {names}")
        return next((line["exit"] for line in bad), 0)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The results of a file; a line that a killed run left half-written is passed over."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _commit() -> str:
    """The commit of the checkout, and a digest of what was changed since."""
    commit = _git("rev-parse", "HEAD").strip() or "no commit"
    changes = _git("diff", "HEAD")
    return commit if not changes else f"{commit}+{hashlib.sha256(changes.encode()).hexdigest()[:12]}"


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError:
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def _read(report: Path) -> dict[str, Any]:
    """What a run came to, from pytest's own report."""
    counts = dict.fromkeys(("passed", "failed", "errors", "skipped"), 0)
    failures: list[str] = []
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  pytest wrote it
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            kinds = {child.tag for child in case}
            if "failure" in kinds or "error" in kinds:
                failures.append(name)
            tag = next((tag for tag in ("failure", "error", "skipped") if tag in kinds), "passed")
            counts[{"failure": "failed", "error": "errors"}.get(tag, tag)] += 1
    return {**counts, "failures": failures}


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but use a core."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()
