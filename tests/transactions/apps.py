"""An app with one kind of job, and the number of its jobs."""

from __future__ import annotations

from typing import Any

from windlass.app.app import App
from windlass.app.kinds import JobKind
from windlass.model import JobFilter


def make_app(url: str) -> tuple[App, JobKind[..., Any]]:
    app = App(url)

    @app.job
    def welcome(user_id: int) -> None: ...

    return app, welcome


def count(app: App) -> int:
    found = len(app.store.jobs.list(JobFilter()).jobs)
    app.close()
    return found


def alchemy(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")
