"""``./dev test``: on other interpreters, many times, beside busy loops; tried on a copy with a pytest that is none."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import selection
from tests.servers import postgres
from tests.tooling.test_dev import PYTHON, ROOT, checkout, made, make_environment, part, run
from tests.waiting import PATIENCE, eventually

__all__ = ["checkout"]
DEADLINE = PATIENCE
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHER = next(minor for minor in ("3.12", "3.13", "3.11") if minor != HERE)

PYTEST = """
import json, os, pathlib, sys, time
names = ("WINDLASS_REQUIRE_REAL", "WINDLASS_TEST_QUICK", "WINDLASS_TEST_LONG")
told = {
    "python": "%d.%d" % sys.version_info[:2],
    "prefix": sys.prefix,
    "arguments": sys.argv[1:],
    "set": [name for name in names if os.environ.get(name) == "1"],
    "busy": int(os.popen("pgrep -c -P %d -f 'os.getppid'" % os.getppid()).read() or 0),
}
with open("runs.jsonl", "a") as file:
    file.write(json.dumps(told) + "\\n")
if "--wait" in sys.argv:
    import faulthandler, subprocess
    faulthandler.enable()
    child = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", "open('is-up', 'w'); import time; time.sleep(1000)"])
    pathlib.Path("child").write_text(str(child.pid))
    child.wait()
    time.sleep(1000)
bad = pathlib.Path("bad").exists()
for argument in sys.argv:
    if argument.startswith("--junitxml="):
        pathlib.Path(argument.partition("=")[2]).write_text(
            '<testsuites><testsuite><testcase classname="tests.unit.test_a" name="test_one[x]">'
            + ("<failure/>" if bad else "")
            + '</testcase><testcase classname="tests.unit.test_a" name="test_two"><skipped/></testcase>'
            "</testsuite></testsuites>"
        )
sys.exit(1 if bad else 0)
"""


@pytest.fixture
def fake(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout whose pytest tells how it was called, with git, on a machine with no other Python than this one."""
    (checkout / "pytest.py").write_text(PYTEST)
    chromium = tmp_path / "bin/chromium"
    chromium.parent.mkdir()
    chromium.symlink_to("/bin/true")
    tools = ":".join(
        {str(Path(found).parent) for name in ("git", "pgrep", "sh") if (found := shutil.which(name))}
    )
    monkeypatch.setenv("PATH", f"{chromium.parent}:{tools}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    git(checkout, "init", "-q")
    (checkout / ".gitignore").write_text("*\n!dev\n")
    git(checkout, "add", "dev")
    git(checkout, "commit", "-qm", "one")
    return checkout


def git(checkout: Path, *arguments: str) -> None:
    known = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *known, *arguments], cwd=checkout, check=True)


def runs(checkout: Path) -> list[dict[str, Any]]:
    path = checkout / "runs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def results(checkout: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (checkout / ".dev-results.jsonl").read_text().splitlines()]


def another(checkout: Path, monkeypatch: pytest.MonkeyPatch, minor: str, *, is_made: bool = True) -> None:
    """Give the machine of the test another interpreter, under pyenv, beside one that does not start."""
    real = part(ROOT, monkeypatch, "interpreters").find(minor)
    real = real or _of_pyenv(minor)
    if real is None:
        pytest.skip(f"this machine has no Python {minor}")
    versions = Path(os.environ["PYENV_ROOT"]) / "versions"
    for version, target in ((f"{minor}.999", Path("/bin/false")), (real.version, Path(real.path))):
        folder = versions / version / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "python").symlink_to(target)
    if is_made:
        make_environment(checkout, checkout / f".venv-{minor}", real.path, monkeypatch)


def _of_pyenv(minor: str) -> Any:
    interpreters = sys.modules["tools.dev.interpreters"]
    for path in sorted((Path.home() / ".pyenv/versions").glob(f"{minor}.*/bin/python"), reverse=True):
        if found := interpreters._ask(str(path)):
            return found
    return None


def test_arguments_reach_pytest_and_ours_do_not(fake: Path) -> None:
    assert run(fake, "test", "--no-check", "-m", "timing", "tests/unit", "-k", "a or b", "-x").returncode == 0
    (told,) = runs(fake)
    assert told["arguments"][-6:] == ["-m", "timing", "tests/unit", "-k", "a or b", "-x"]
    assert told["arguments"][:1] == ["-n"] and told["set"] == ["WINDLASS_REQUIRE_REAL"]
    assert Path(told["prefix"]).samefile(fake / ".venv")


def test_many_changed_tests_are_compiled_once_beside_the_checks(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = made(fake, monkeypatch)
    module = part(fake, monkeypatch, "compiling")
    tests = fake / "tests"
    tests.mkdir()
    files = [tests / f"test_{n}.py" for n in range(module.ENOUGH)]

    def told(**variables: str) -> list[dict[str, Any]]:
        before = len(runs(fake))
        with module.compiling(environment, **variables):
            pass
        return runs(fake)[before:]

    for file in files[1:]:
        file.touch()
    assert told() == [], "a few modules are left to the run itself"
    files[0].touch()
    (first,) = told()
    assert first["arguments"] == ["--collect-only", "-q"]
    assert told() == [], "nothing changed"
    (quick,) = told(WINDLASS_TEST_QUICK="1")
    assert "WINDLASS_TEST_QUICK" in quick["set"], "another set of tests"
    later = (environment.folder / "windlass-dev-compiled").stat().st_mtime + 1
    for file in files:
        os.utime(file, (later, later))
    assert len(told()) == 1


@pytest.mark.parametrize("kind", ["quick", "long"])
def test_the_kind_of_run_is_told_to_the_tests(fake: Path, kind: str) -> None:
    assert run(fake, "test", "--no-check", f"--{kind}", "-n", "0").returncode == 0
    (told,) = runs(fake)
    assert told["set"] == ["WINDLASS_REQUIRE_REAL", f"WINDLASS_TEST_{kind.upper()}"]
    assert told["arguments"] == ["-n", "0"]


def test_another_interpreter_has_an_environment_of_its_own(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another(fake, monkeypatch, OTHER)
    answer = run(fake, "test", "--python", OTHER)
    assert answer.returncode == 0, answer.stderr
    (told,) = runs(fake)
    assert told["python"] == OTHER and Path(told["prefix"]).samefile(fake / f".venv-{OTHER}")
    assert "dev: mypy" not in answer.stderr, "the checks say the same on every Python"


def test_several_interpreters_run_and_a_missing_one_fails_before_anything_runs(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = run(fake, "test", "--no-check", "--quick", "--pythons", f"{HERE},{OTHER}")
    assert answer.returncode == 1 and not runs(fake)
    assert f"FAILED step: looking for Python {OTHER}" in answer.stderr
    another(fake, monkeypatch, OTHER)
    answer = run(fake, "test", "--no-check", "--quick", "--pythons", f"{HERE},{OTHER}")
    assert answer.returncode == 0, answer.stderr
    assert [told["python"] for told in runs(fake)] == [HERE, OTHER]
    assert all("WINDLASS_TEST_QUICK" in told["set"] for told in runs(fake))
    assert answer.stderr.count(": passed") == 2


@pytest.mark.parametrize("given", ["13", "3.x", "2.7"])
def test_a_version_that_is_none_is_refused(fake: Path, given: str) -> None:
    answer = run(fake, "test", "--no-check", "--python", given)
    assert answer.returncode == 1 and "cure: " in answer.stderr and not runs(fake)


def test_ci_says_which_interpreters_ran_and_which_were_not_found(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another(fake, monkeypatch, OTHER)
    missing = next(minor for minor in ("3.11", "3.12", "3.13") if minor not in (HERE, OTHER))
    answer = run(fake, "ci", "--no-check")
    assert answer.returncode == 0, answer.stderr
    assert [(told["python"], "WINDLASS_TEST_QUICK" in told["set"]) for told in runs(fake)] == [
        (HERE, False),
        (OTHER, True),
    ]
    last = answer.stderr.splitlines()[-3:]
    assert re.fullmatch(rf"dev: Python {HERE}\.\d+: the whole suite passed, \d+ s with set-up", last[0])
    assert f"dev: Python {missing}: not found, the quick set did not run" in last
    assert any(re.match(rf"dev: Python {OTHER}\.\d+: the quick set passed", line) for line in last)
    (fake / "bad").touch()
    assert run(fake, "ci", "--no-check").returncode == 1


def test_a_run_that_hangs_is_ended_with_all_it_started_and_says_where_it_hung(fake: Path) -> None:
    limit, answer = 3, run(fake, "test", "--no-check", "--limit", "3", "--wait")
    if not (fake / "is-up").exists():  # it hangs when its child is up, which takes a busy machine longer
        limit, answer = 30, run(fake, "test", "--no-check", "--limit", "30", "--wait")
    assert answer.returncode == 124 and f"did not end within {limit} s" in answer.stderr
    assert answer.stderr.count("most recent call first") == 2, "what the run and its child were doing"
    stat = Path(f"/proc/{(fake / 'child').read_text()}/stat")
    assert not stat.exists() or stat.read_text().split()[2] == "Z", "the child has ended"


def test_repeated_runs_are_written_down_and_gone_on_with(fake: Path) -> None:
    command = ("test", "--no-check", "--repeat", "2", "--load", "1", "-m", "timing")
    answer = run(fake, *command)
    assert answer.returncode == 0, answer.stderr
    assert len(runs(fake)) == 2
    first = results(fake)[0]
    assert first["load"] == 1 and first["python"] == sys.version.split()[0] and first["exit"] == 0
    assert (first["passed"], first["failed"], first["skipped"], first["failures"]) == (1, 0, 1, [])
    assert first["arguments"] == ["-m", "timing"] and first["seconds"] >= 0
    assert re.fullmatch("[0-9a-f]{40}", first["commit"]) and first["at"].endswith("+00:00")
    (fake / "bad").touch()
    answer = run(fake, *command[:3], "4", *command[4:])
    assert len(runs(fake)) == 4 and "2 of 4 runs are in" in answer.stderr
    assert answer.returncode == 1
    assert results(fake)[-1]["failures"] == ["tests/unit/test_a.py::test_one[x]"]
    assert "2 of 4 runs passed" in answer.stderr and "test_one[x]" in answer.stderr
    assert run(fake, *command[:3], "4", *command[4:]).returncode == 1, "failures of earlier calls count"
    assert len(runs(fake)) == 4, "nothing was missing"
    (fake / "bad").unlink()
    assert run(fake, *command[:3], "1", "--load", "0", "-m", "timing").returncode == 0, "another load"
    (fake / "dev").write_text((fake / "dev").read_text() + "# changed\n")
    assert run(fake, *command[:3], "1", *command[4:]).returncode == 0, "changed since: counted anew"
    assert "+" in results(fake)[-1]["commit"] and len(runs(fake)) == 6


def test_a_half_written_result_is_passed_over(fake: Path) -> None:
    (fake / ".dev-results.jsonl").write_text('{"at": "20')
    assert run(fake, "test", "--no-check", "--repeat", "1").returncode == 0


def test_every_module_that_is_not_quick_exists() -> None:
    """A name that leads nowhere would put a renamed module into the quick set without a word."""
    folder = ROOT / "tests"
    assert [name for name in sorted(selection.NOT_QUICK) if not (folder / f"{name}.py").exists()] == []
    assert [name for name in sorted(selection.QUICK) if not (folder / name).is_dir()] == []


def busy(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", "os.getppid"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_busy_loops_end_however_the_run_ends(fake: Path, number: signal.Signals) -> None:
    command = [PYTHON, fake / "dev", "test", "--no-check", "--repeat", "2", "--load", "3", "--wait"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        eventually(lambda: runs(fake))
        loops = eventually(lambda: found if len(found := busy(process.pid)) == 3 else None)
        if number is signal.SIGINT:  # as a terminal does
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.wait(DEADLINE)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() and is_running(pid) for pid in loops))
    finally:
        with suppress(ProcessLookupError):  # all of the group have ended
            os.killpg(process.pid, signal.SIGKILL)
    assert not (fake / ".dev-results.jsonl").exists() and len(runs(fake)) == 1


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_busy_loop_that_begins_after_its_starter_ended_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It took whoever it was left to for its starter, and used a core for ever."""
    loop = part(ROOT, monkeypatch, "repeating").BUSY
    gone = subprocess.Popen([PYTHON, "-c", ""])
    gone.wait(DEADLINE)
    assert subprocess.run([PYTHON, "-c", loop, str(gone.pid)], timeout=DEADLINE, check=False).returncode == 0


def collected(files: Sequence[str], **env: str) -> list[str]:
    """The tests of these files that a run selects, by name and parameters."""
    options = [
        "--collect-only",
        "-q",
        *(part for name in ("cacheprovider", "xdist", "hypothesispytest") for part in ("-p", f"no:{name}")),
    ]
    command = [sys.executable, "-m", "pytest", *options, *files]
    sets = ("WINDLASS_TEST_QUICK", "WINDLASS_TEST_LONG", "WINDLASS_TEST_PG_PROFILE")
    others = {name: value for name, value in os.environ.items() if name not in sets}
    answer = subprocess.run(command, cwd=ROOT, env=others | env, capture_output=True, text=True, check=False)
    chosen = [line for line in answer.stdout.splitlines() if "::" in line]
    assert {line.split("::")[0] for line in chosen} == set(files), answer.stdout
    return chosen


def test_the_quick_set_is_sqlite_and_the_newest_postgresql_without_what_is_slow() -> None:
    files = ["tests/conformance/test_claim.py", "tests/conformance/test_connections.py"]
    chosen = collected(files, WINDLASS_TEST_QUICK="1")
    named = {name for line in chosen for name in re.findall(r"\b(sqlite|pg\d+)\b", line.partition("[")[2])}
    assert named == {"sqlite", postgres.ids()[0]}
    slow = re.findall(r"mark\.slow\n(?:@.*\n)*def (\w+)", (ROOT / files[1]).read_text())
    assert slow and not [line for line in chosen for name in slow if f"::{name}" in line]


def test_a_test_that_a_guarantee_names_runs_on_both_databases() -> None:
    """Also in a module whose tests run on one of them otherwise."""
    file = "tests/engine/test_stopping.py"
    databases: dict[str, set[str]] = {}
    for line in collected([file]):
        name, _, parameters = line.partition("::")[2].partition("[")
        databases.setdefault(name, set()).update(re.findall(r"sqlite|postgresql", parameters))
    proofs = {
        name for name in databases if f"`{file}::{name}`" in (ROOT / "docs/guarantees.md").read_text("utf-8")
    }
    both, one = {"sqlite", "postgresql"}, {"sqlite"}
    assert proofs and proofs != set(databases)
    assert {name: both if name in proofs else one for name in databases} == databases
