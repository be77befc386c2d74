"""``windlass dev`` in a terminal."""

from __future__ import annotations

import http.cookiejar
import importlib
import importlib.util
import json
import os
import re
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.cli.bench import ROOT, children
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE, eventually
from windlass.cli.watched_files import WatchedFiles
from windlass.features import open_store

pytestmark = [pytest.mark.timing, pytest.mark.slow]

APP = """
import windlass

app = windlass.App()

@app.job
def hello(name: str) -> str:
    return f"{WORD} {{name}}"
"""


def write(folder: Path, word: str) -> None:
    put(folder, APP.replace("{WORD}", word).replace("{{name}}", "{name}"))


def put(folder: Path, code: str) -> None:
    """Change the code at once: an empty file would compile."""
    other = folder / "jobs.next"
    other.write_text(code)
    other.rename(folder / "jobs.py")


def dev(folder: Path, *more: str) -> Terminal:
    env = {"WINDLASS_DATABASE_URL": f"sqlite:///{folder}/jobs.db", "PYTHONPATH": str(ROOT / "src")}
    return Terminal("dev", "jobs:app", *more, cwd=folder, env=env, columns=200)


def result(folder: Path) -> object:
    """The result of a job that is enqueued now."""
    import windlass

    app = windlass.App(f"sqlite:///{folder}/jobs.db")

    @app.job
    def hello(name: str) -> str:
        return name

    with app:
        return hello.enqueue(name="anna").result(timeout=PATIENCE)


def test_the_worker_starts_again_when_code_changes(tmp_path: Path) -> None:
    write(tmp_path, "hello")
    with dev(tmp_path) as terminal:
        terminal.until_written("instance.started")
        assert result(tmp_path) == "hello anna"
        write(tmp_path, "goodbye")
        text = terminal.until_written("instance.started", 2)
        assert "dev: jobs.py changed; the worker starts again" in text
        assert "instance.stopped" in text, "the old worker stopped gracefully"
        assert result(tmp_path) == "goodbye anna"
        terminal.send("\x03")  # Ctrl-C
        assert terminal.ended() == 130
        assert terminal.until_written("instance.stopped", 2).count("instance.stopped") == 2
    with open_store(f"sqlite:///{tmp_path}/jobs.db") as store:
        assert store.instances.list() == []


def test_code_that_cannot_work_waits_for_the_next_change(tmp_path: Path) -> None:
    write(tmp_path, "hello")
    with dev(tmp_path, "--no-dashboard") as terminal:
        terminal.until_written("instance.started")
        (worker,) = children(terminal.process.pid)
        put(tmp_path, "def broken(:\n")
        terminal.until_written("does not compile (SyntaxError")
        assert children(terminal.process.pid) == [worker], "the running worker stays"
        put(tmp_path, "import something_that_is_not_there\n")
        terminal.until_written("it waits for a change")
        assert "which is neither installed nor here" in " ".join(terminal.written.split())
        assert children(terminal.process.pid) == []
        write(tmp_path, "mended")
        terminal.until_written("instance.started", 2)
        assert result(tmp_path) == "mended anna"


def test_the_worker_ends_with_the_command(tmp_path: Path) -> None:
    write(tmp_path, "hello")
    with dev(tmp_path, "--no-dashboard") as terminal:
        terminal.until_written("instance.started")
        (worker,) = children(terminal.process.pid)
        terminal.process.send_signal(signal.SIGKILL)
        terminal.ended()
        eventually(lambda: not Path(f"/proc/{worker}").exists(), "the end of the worker")


def test_the_dashboard_is_served_and_its_session_outlasts_a_change_of_code(tmp_path: Path) -> None:
    write(tmp_path, "hello")
    with dev(tmp_path, "--port", "0") as terminal:
        said = terminal.until_written("/login#") and terminal.until_written("\n", 3)
        origin, code = re.findall(r"(http://127\.0\.0\.1:\d+)/login#(\S+)", said)[0]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        headers = {"Content-Type": "application/json", "Origin": origin}
        body = json.dumps({"code": code}).encode()
        browser.open(urllib.request.Request(f"{origin}/v1/session", body, headers)).close()
        assert b"<title>Windlass</title>" in browser.open(f"{origin}/").read()
        assert b'"name":"hello"' in browser.open(f"{origin}/v1/pipelines").read()
        write(tmp_path, "goodbye")
        terminal.until_written("/login#", 2)
        assert b'"name":"hello"' in browser.open(f"{origin}/v1/pipelines").read()


def test_without_the_extra_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = importlib.import_module("windlass.cli.dev")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not command._can_serve()
    assert capsys.readouterr().err == "dev: the dashboard needs an extra: pip install 'windlass[api]'\n"


def test_files_that_are_watched(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    files = WatchedFiles([tmp_path])
    assert files.changed() == []
    for name in ("package/a.py", "windlass.toml", ".hidden/b.py", "env/c.py", "notes.txt"):
        (tmp_path / name).touch()
    assert [os.path.relpath(name, tmp_path) for name in files.changed()] == ["package/a.py", "windlass.toml"]
    assert files.changed() == []
    (tmp_path / "package" / "a.py").unlink()
    assert len(files.changed()) == 1
