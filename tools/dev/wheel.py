"""``./dev wheel``: builds wheel and sdist, and runs quickstart and demonstrations from the wheel where nothing else is installed.

First with the locked dependencies and no extra, then with the extra ``all``.
"""

import argparse
import os
import re
import tempfile
from pathlib import Path

from tools.dev.environment import DEV_LOCK, INDEX_CURE, RUNTIME_LOCK, Environment
from tools.dev.interpreters import Interpreter, find, running, supported, wanted
from tools.dev.steps import ROOT, StepError, report_failure, say, step

DEMONSTRATIONS = (["windlass", "demo", "--once"], ["windlass", "demo", "--kill"])
QUICKSTART = (
    ["python", "jobs.py"],
    ["windlass", "worker", "jobs:app", "--drain"],
    ["windlass", "jobs", "ls"],
)


def wheel(arguments: list[str]) -> int:
    """On every supported interpreter that this machine has, or on those that were named, which then have to be there."""
    parser = argparse.ArgumentParser(prog="./dev wheel", allow_abbrev=False)
    parser.add_argument("--pythons", help="minor versions, separated by commas")
    options = parser.parse_args(arguments)
    named = [minor.strip() for minor in options.pythons.split(",")] if options.pythons else []
    interpreters = {minor: wanted(minor) for minor in named} or {
        minor: found for minor in supported() if (found := find(minor))
    }
    told = [f"Python {minor}: not found" for minor in supported() if not named and minor not in interpreters]
    environment = Environment(running())
    failed = False
    with environment.ready(), tempfile.TemporaryDirectory(prefix="windlass-wheel-") as folder:
        built = _build(environment, Path(folder))
        for interpreter in interpreters.values():
            try:
                _try(environment, interpreter, built, Path(folder) / interpreter.minor)
                told.append(f"Python {interpreter.version}: quickstart and demonstrations passed")
            except StepError as failure:
                report_failure(failure)
                told.append(f"Python {interpreter.version}: FAILED {failure.step}")
                failed = True
    for line in told:
        say(f"dev: {line}")
    return 1 if failed else 0


def _build(environment: Environment, folder: Path) -> Path:
    hatch = [str(environment.python), "-m", "hatchling", "build", "-d", str(folder)]
    cure = "see the message above, and [tool.hatch] in pyproject.toml"
    for target in ("sdist", "wheel"):
        step(f"building the {target}", [*hatch, "-t", target], cure=cure)
    return next(folder.glob("*.whl"))


def _try(environment: Environment, interpreter: Interpreter, built: Path, folder: Path) -> None:
    """Install the wheel with its locked dependencies into an environment of its own, and run the demonstrations there."""
    place, work, version = folder / "venv", folder / "work", interpreter.version
    work.mkdir(parents=True)
    python = str(place / "bin" / "python")
    uv = [str(environment.folder / "bin" / "uv"), "pip", "install", "--python", python]
    env = environment.uv_environment()
    make = [interpreter.path, "-m", "venv", "--without-pip", str(place)]
    step(f"making a clean environment (Python {version})", make, cure="see the message above")
    locked = [*uv, "--require-hashes", "--requirement", str(RUNTIME_LOCK)]
    step(f"installing the locked dependencies (Python {version})", locked, env=env, cure=INDEX_CURE)
    step(f"installing {built.name}", [*uv, "--no-deps", str(built)], env=env, cure="see the message above")
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    (work / "jobs.py").write_text(quickstart())
    for command in (*QUICKSTART, *DEMONSTRATIONS):
        text = _run(command, place, work, clean, version)
        if command == QUICKSTART[-1] and "completed" not in text:
            raise StepError("quickstart", text, "the job of README.md must be completed")
    extra = [*uv, "--constraint", str(DEV_LOCK), f"windlass[all] @ {built.as_uri()}"]
    step(f"installing windlass[all] (Python {version})", extra, env=env, cure=INDEX_CURE)
    _run(DEMONSTRATIONS[0], place, work, clean, version)


def quickstart() -> str:
    """The program of README.md, as its readers copy it."""
    found = re.search(
        r"<!-- file: jobs\.py -->\n```python\n(.*?)^```$",
        (ROOT / "README.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    if found is None:
        raise StepError(
            "reading the quickstart", "README.md", "it must have a block below <!-- file: jobs.py -->"
        )
    return found[1]


def _run(command: list[str], place: Path, work: Path, env: dict[str, str], version: str) -> str:
    """Run a program of the environment; its last lines are shown."""
    program, *arguments = command
    title = f"{' '.join(command)} (Python {version})"
    text = step(
        title,
        [str(place / "bin" / program), *arguments],
        cwd=work,
        env=env,
        cure="it must end with exit code 0",
    )
    for line in text.splitlines()[-6:]:
        say(f"  | {line}")
    return text
