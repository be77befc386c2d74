"""Flask: handlers run in the application's context, wherever they run."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask, current_app

from tests.engine.shop import QUICK
from tests.integrations.running import run, write_example
from tests.waiting import PATIENCE
from windlass.engine.drain import Drain
from windlass.errors import ConfigError
from windlass.features import open_store
from windlass.integrations.flask import Windlass
from windlass.model import JobFilter, State

pytestmark = pytest.mark.timing


def test_handlers_and_probes_see_the_application(sqlite_path: Path) -> None:
    web = Flask("shop")
    web.config["WINDLASS_DATABASE_URL"] = f"sqlite:///{sqlite_path}"
    jobs = Windlass(web, settings=QUICK)

    def is_done(n: int) -> str:
        return current_app.name

    @jobs.job(probe=is_done)
    def plain(n: int) -> str:
        return f"{current_app.name} {n}"

    @jobs.job
    async def coroutine(n: int) -> str:
        return f"{current_app.name} {n}"

    assert web.extensions["windlass"] is jobs
    made = [plain.enqueue(n=1), coroutine.enqueue(n=2)]
    engine = jobs.worker()
    engine.start()
    try:
        assert Drain(engine, jobs.store).wait(PATIENCE)
        assert [jobs.store.jobs.get(job.id).result for job in made] == ["shop 1", "shop 2"]
        phase = jobs.parts.registry.phase("plain")
        assert phase is not None and phase.probe is not None and phase.probe(n=1) == "shop"
    finally:
        engine.stop(grace=0)
        jobs.close()


def test_a_handler_is_still_a_plain_function() -> None:
    jobs = Windlass()

    @jobs.job
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3


def test_without_an_application_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLASK_APP", raising=False)
    with pytest.raises(ConfigError, match="init_app"):
        _ = Windlass().web


@pytest.mark.slow
def test_the_command_serves_jobs_in_threads_and_processes(tmp_path: Path) -> None:
    """The example's application, and a job in a child process that imports nothing but the handler's module."""
    write_example("flask", tmp_path)
    with (tmp_path / "shop.py").open("a") as file:
        file.write(
            '\n\n@jobs.job(executor="process")\ndef heavy(n: int) -> str:\n    return f"{current_app.config[\'GREETING\']} {n}"\n'
        )
    run(
        tmp_path,
        "-c",
        "import shop; shop.create_app(); shop.welcome.enqueue(user_id=7); shop.heavy.enqueue(n=8); shop.jobs.close()",
    )
    run(tmp_path, "-m", "flask", "--app", "shop", "windlass-worker", "--drain", "--level", "warning")
    with open_store(f"sqlite:///{tmp_path / 'shop.db'}") as store:
        found = store.jobs.list(JobFilter()).jobs
    assert {job.result for job in found} == {"hello, user 7", "hello 8"}
    assert all(job.state is State.COMPLETED for job in found)
