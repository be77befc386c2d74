"""The promises of ./dev, tried on a copy of it in a folder of its own (with a space in its name)."""

import dataclasses
import fcntl
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

pytestmark = pytest.mark.timing

ROOT = Path(__file__).resolve().parents[2]
PYTHON = getattr(sys, "_base_executable", None) or sys.executable


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose set-up is finished: a real environment (no packages but the real uv) and a true stamp."""
    folder = tmp_path / "a checkout"
    folder.mkdir()
    for name in ("dev", "pyproject.toml", "requirements-dev.lock"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src").mkdir()  # where ./dev makes the link to examples/
    make_environment(folder, folder / ".venv", PYTHON, monkeypatch)
    return folder


def make_environment(checkout: Path, folder: Path, python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    (folder / "bin/uv").symlink_to(Path(sys.executable).with_name("uv"))
    environment = made(checkout, monkeypatch, python)
    assert environment.folder == folder
    environment.write_stamp(part(checkout, monkeypatch, "environment").packages_identity())


def part(checkout: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """A module of the copy of ./dev, imported from there and not from here."""
    for known in [known for known in sys.modules if known.split(".")[0] == "tools"]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.syspath_prepend(checkout)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module(f"tools.dev.{name}")
    assert module.__file__ == str(checkout / f"tools/dev/{name}.py")
    return module


def made(checkout: Path, monkeypatch: pytest.MonkeyPatch, python: str | None = None) -> Any:
    """The environment of the copy, for the interpreter that runs this or another."""
    module = part(checkout, monkeypatch, "environment")
    if python in (None, PYTHON):
        return module.Environment()
    return module.Environment(sys.modules["tools.dev.interpreters"]._ask(python))


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [PYTHON, checkout / "dev", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=2 * PATIENCE)


def script(checkout: Path, code: str) -> None:
    """Put a program behind `./dev mutate-sql`, the simplest of the commands."""
    (checkout / "tests").mkdir()
    (checkout / "tests/mutate_sql.py").write_text(code)


def test_a_finished_set_up_is_skipped(checkout):
    result = run(checkout, "setup")
    assert result.returncode == 0, result.stderr
    assert result.stderr == f"dev: .venv is ready: {checkout}/.venv/bin/python\n", "not one step"


@pytest.mark.parametrize("name", ["requirements-dev.lock", "pyproject.toml"])
def test_a_change_of_the_lock_or_the_project_asks_for_set_up(checkout, name, monkeypatch):
    dev = made(checkout, monkeypatch)
    assert dev.is_fresh()
    (checkout / name).write_text((checkout / name).read_text() + "\n# changed\n")
    assert not dev.is_fresh()
    assert dev.stamp()["venv"] == dev.identity(), "the environment itself is kept and only updated"


def test_a_half_made_or_orphaned_environment_is_not_trusted(checkout, monkeypatch):
    dev = made(checkout, monkeypatch)
    python = checkout / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert dev.stamp() == {}, "its interpreter has gone"
    (checkout / ".venv/windlass-dev-stamp.json").write_text('{"venv": ')
    assert dev.stamp() == {}, "it was killed while writing"


def test_an_environment_that_moved_is_not_trusted(checkout, monkeypatch):
    moved = checkout.with_name("elsewhere")
    checkout.rename(moved)
    dev = made(moved, monkeypatch)
    assert dev.stamp().get("venv") != dev.identity()


def test_a_failed_step_is_named_with_its_output_and_its_cure(checkout, monkeypatch):
    lock = checkout / "requirements-dev.lock"
    lock.write_text(lock.read_text() + "\n<<<<<<< this is not a requirement\n")
    result = run(checkout, "check")
    assert result.returncode == 1
    assert "FAILED step: installing the locked packages" in result.stderr
    assert "  | " in result.stderr, "the tail of what the step printed"
    assert "cure: " in result.stderr
    assert "./dev lock" in result.stderr
    assert "Traceback" not in result.stderr
    assert made(checkout, monkeypatch).stamp() == {}, "the next run starts over"


def test_a_missing_lock_names_its_cure(checkout):
    (checkout / "requirements-dev.lock").unlink()
    result = run(checkout, "check")
    assert result.returncode == 1
    assert "FAILED step: reading requirements-dev.lock" in result.stderr
    assert "./dev lock" in result.stderr


def test_exit_codes_and_arguments_pass_through(checkout):
    script(checkout, "import sys; print(sys.argv[1:]); sys.exit(7)")
    result = run(checkout, "mutate-sql", "--only", "a b")
    assert (result.returncode, result.stdout) == (7, "['--only', 'a b']\n")


def test_death_by_signal_becomes_the_shells_exit_code(checkout):
    script(checkout, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run(checkout, "mutate-sql").returncode == 128 + signal.SIGKILL


WAIT_FOR_CTRL_C = """
import time
try:
    print("up", flush=True)
    time.sleep(1000)
except KeyboardInterrupt:
    print("tidy")
"""


def test_ctrl_c_gives_130_and_no_traceback_of_ours(checkout):
    script(checkout, WAIT_FOR_CTRL_C)
    command = [PYTHON, checkout / "dev", "mutate-sql"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stdout) == (130, "tidy\n")
    assert "Traceback" not in stderr


def test_a_command_waits_while_another_run_sets_up_and_says_so(checkout):
    script(checkout, "print('ran')")
    with (checkout / ".dev.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        command = [PYTHON, checkout / "dev", "mutate-sql"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        assert "waiting" in process.stderr.readline()
        assert process.poll() is None
    stdout, _ = process.communicate(timeout=PATIENCE)
    assert stdout == "ran\n"


def test_commands_that_need_no_change_run_side_by_side(checkout):
    script(checkout, "print('ran')")
    with (checkout / ".dev.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert run(checkout, "mutate-sql").stdout == "ran\n"


def test_pips_index_is_handed_to_uv_and_an_explicit_one_is_kept(checkout, monkeypatch):
    dev = made(checkout, monkeypatch)
    monkeypatch.setattr(dev, "pip_settings", lambda: {"index-url": "https://mirror.example/simple"})
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    assert dev.uv_environment()["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://chosen.example/simple")
    assert dev.uv_environment()["UV_DEFAULT_INDEX"] == "https://chosen.example/simple"


def test_pips_settings_are_read_from_its_files_and_variables(checkout, monkeypatch, tmp_path):
    dev = made(checkout, monkeypatch)
    monkeypatch.setattr(dev, "python", Path(sys.executable))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://file.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    assert dev.pip_settings()["index-url"] == "https://file.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable.example/simple")
    assert dev.pip_settings()["index-url"] == "https://variable.example/simple"


def test_uv_gets_a_cache_of_its_own_where_the_home_cannot_be_written(checkout, monkeypatch):
    dev = made(checkout, monkeypatch)
    for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc")  # exists, and not even root can make a folder in it
    monkeypatch.setattr(os, "access", lambda path, _mode: not str(path).startswith("/proc"))
    assert dev.uv_environment()["UV_CACHE_DIR"] == str(checkout / ".venv/uv-cache")


def test_unknown_commands_and_missing_parts_are_explained(checkout):
    result = run(checkout, "tset")
    assert result.returncode == 2
    assert "there is no command 'tset'; there are: test, " in result.stderr
    result = run(checkout, "bench")
    assert result.returncode == 2
    assert "bench/__main__.py" in result.stderr


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_locks_are_hashed_and_name_no_address(name):
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "index" not in text
    packages = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert packages
    assert all(line.endswith("\\") for line in packages), "every package carries hashes"


def test_the_stamp_is_plain_json(checkout):
    content = json.loads((checkout / ".venv/windlass-dev-stamp.json").read_text())
    assert set(content) == {"venv", "packages"}


def test_python_without_its_venv_module_is_told_the_package_to_install(checkout, monkeypatch, capsys):
    (checkout / ".venv/windlass-dev-stamp.json").unlink()
    dev = made(checkout, monkeypatch)
    broken = dataclasses.replace(dev.interpreter, path="/bin/false")
    with pytest.raises(Exception, match=r"making .venv") as caught, type(dev)(broken).ready():
        pass
    assert "apt-get install python3-venv" in caught.value.cure  # type: ignore[attr-defined]


def test_a_missing_browser_is_said_loudly_with_the_line_that_installs_it(checkout, monkeypatch, capsys):
    checks = part(checkout, monkeypatch, "checks")
    monkeypatch.setattr(checks, "find_chromium", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    checks.ensure_chromium()
    said = capsys.readouterr().err
    assert "Chromium is missing" in said
    assert "apt-get install -y --no-install-recommends chromium" in said


@pytest.mark.parametrize(("lines", "is_long"), [(400, False), (401, True)])
def test_a_file_that_is_too_long_is_named(checkout, monkeypatch, capsys, lines, is_long):
    file = checkout / "src/long.py"
    file.write_text("\n" * lines)
    assert part(checkout, monkeypatch, "counting").report_long([file]) is is_long
    assert ("src/long.py has 401 lines" in capsys.readouterr().err) is is_long
