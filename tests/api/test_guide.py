"""The commands of the guide work as they stand there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.requests import Request

from tests.api.conftest import EVERY_ROLE
from tests.waiting import PATIENCE
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.api.access.caller import Caller
from windlass.api.server import ApiServer
from windlass.model.principal import Principal

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "rest-api.md"


async def by_token(request: Request) -> Caller | None:
    if request.headers.get("Authorization") != "Bearer secret":
        return None
    return Caller(Principal("anna", roles=frozenset({"windlass:admin"})), EVERY_ROLE, "function")


@pytest.mark.one_database
@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide uses curl, which is not installed")
def test_the_commands_of_the_guide_work(fresh_sqlite) -> None:
    app = App(fresh_sqlite())

    @app.job
    def welcome(user_id: int) -> str:
        return f"hello, user {user_id}"

    commands = re.findall(r"^\$ (.*\bcurl .*)$", GUIDE.read_text("utf-8"), re.MULTILINE)
    engine = app.worker()
    with app, ApiServer(create_api(app, settings=ApiSettings(), authenticate=by_token)) as server:
        engine.start()
        server.start()
        for command in commands:
            ran = subprocess.run(
                command.replace("http://127.0.0.1:8080", server.url),
                shell=True,
                env={"TOKEN": "secret", "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
            assert ran.returncode == 0, (command, ran.stderr)
            if "wait=10" in command:  # the second is what a machine without time gets
                assert '"result":"hello, user 8"' in ran.stdout or '"created":true' in ran.stdout
        engine.stop()
        assert app.jobs.count("kind:welcome").count == 4
    assert len(commands) == 5
