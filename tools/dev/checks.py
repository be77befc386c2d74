"""The checks that need no server: format, lint, types, import layers, the length of files, words. And the browser that some tests need."""

import os
import shutil

from tools.dev.counting import report_long
from tools.dev.environment import Environment
from tools.dev.running import STOPPED, run
from tools.dev.steps import ROOT, StepError, report_failure, say, step
from tools.dev.words import check as check_words

CURES = {
    "ruff check": ".venv/bin/ruff check --fix .",
    "ruff format": ".venv/bin/ruff format .",
    "mypy": "see its lines above",
    "import layers": "see the broken chain above; the layers are in pyproject.toml",
    "length of files": "split the files named above",
    "words": "use the words named above; the list is in tools/dev/words.py",
}


def check_parts(environment: Environment) -> list[str]:
    """Run every check, whatever the others say, and name those that failed."""
    # mypy is given only what exists: it takes a missing path as an error.
    names = ("src", "tests", "bench", "chaos", "tools", "dev", "docs")
    typed = [name for name in names if (ROOT / name).exists()]
    tools = {
        "ruff check": ["ruff", "check", "."],
        "ruff format": ["ruff", "format", "--check", "."],
        "mypy": ["mypy", *typed],
        "import layers": ["lint-imports", "--no-logo"],
    }
    failed = []
    for name, (tool, *arguments) in tools.items():
        say(f"dev: {name}")
        code = run(environment, [str(environment.folder / "bin" / tool), *arguments])
        if code in STOPPED:
            raise KeyboardInterrupt
        if code != 0:
            failed.append(name)
    say("dev: length of files")
    if report_long(path for name in typed for path in sorted((ROOT / name).rglob("*.py"))):
        failed.append("length of files")
    say("dev: words")
    for use in (uses := check_words()):
        say(str(use))
    return [*failed, "words"] if uses else failed


def report_failed_checks(failed: list[str]) -> None:
    for name in failed:
        say(f"dev: FAILED {name}; cure: {CURES[name]}")


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def ensure_chromium() -> None:
    """Browser tests need a real browser. Root gets it from apt; others are told the line, loudly."""
    if find_chromium():
        return
    line = "apt-get update && apt-get install -y --no-install-recommends chromium"
    reason = "this is not root"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        wait = ["-o", "DPkg::Lock::Timeout=300"]
        cure = f"check the network, then try by hand: {line}"
        try:
            step("apt-get update", ["apt-get", *wait, "update"], env=env, cure=cure)
            step(
                "installing Chromium for the browser tests (about 30 s)",
                ["apt-get", *wait, "install", "-y", "--no-install-recommends", "chromium"],
                env=env,
                cure=cure,
            )
            return
        except StepError as failure:
            report_failure(failure)
            reason = "apt-get failed"
    bar = "!" * 100
    say(f"{bar}\n!! Chromium is missing and {reason}: browser tests can not run.\n!! As root: {line}\n{bar}")
