"""Flask: an extension that is an App, with handlers in the application's context and a command for the worker.

jobs = Windlass()

@jobs.job
def welcome(user_id: int) -> None: ...

def create_app() -> Flask:
    web = Flask(__name__)
    web.config["WINDLASS_DATABASE_URL"] = "postgresql://…"
    jobs.init_app(web)
    return web

$ flask --app shop windlass-worker
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from flask import Flask
from flask.cli import ScriptInfo

from windlass import forking
from windlass.app.app import App
from windlass.arguments.asyncness import is_async
from windlass.errors import ConfigError
from windlass.integrations.serving import become_worker

EXTENSION = "windlass"
DEFAULT_FILES = ("wsgi.py", "app.py")
"""The files in which `flask` searches for an application, in this order, if none is named."""


class Windlass(App):
    """An App of a Flask application. Handlers and probes run in its application context, so ``current_app`` and extensions work."""

    def __init__(self, web: Flask | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.parts.registry.around = self._in_context
        self._web: Flask | None = None
        self._loading = threading.Lock()
        forking.watch(self)
        if web is not None:
            self.init_app(web)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one while it loads the application."""
        self._loading = threading.Lock()

    def init_app(self, web: Flask) -> None:
        """Belong to an application; its configuration has the database: WINDLASS_DATABASE_URL."""
        self._web = web
        web.extensions[EXTENSION] = self
        url = web.config.get("WINDLASS_DATABASE_URL")
        if url is not None:
            self.parts.give_url(url, "Flask's WINDLASS_DATABASE_URL")
        web.cli.add_command(worker)

    @property
    def web(self) -> Flask:
        """The application; in a worker's child process, which imports only the module of a handler, the one that FLASK_APP names."""
        with self._loading:
            if self._web is None and os.environ.get("FLASK_APP"):
                _load_web()  # calls init_app
            if self._web is None:
                raise ConfigError("flask", None, "an application: call init_app(app), or set FLASK_APP")
            return self._web

    def _in_context(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        if is_async(handler):

            @functools.wraps(handler)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with self.web.app_context():
                    return await handler(*args, **kwargs)

            return run_async

        @functools.wraps(handler)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.web.app_context():
                return handler(*args, **kwargs)

        return run


@click.command("windlass-worker", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def worker(context: click.Context, options: tuple[str, ...]) -> None:
    """Serve the application's jobs; options are those of `windlass worker`."""
    info = context.ensure_object(ScriptInfo)
    path = info.app_import_path or next((name for name in DEFAULT_FILES if Path(name).exists()), None)
    if path is not None:
        os.environ["FLASK_APP"] = path  # for the worker and its children
    become_worker("windlass.integrations.flask:app", options)


def _load_web() -> Flask:
    """The application that FLASK_APP names; a ScriptInfo of our own does not search there, only the command `flask` does."""
    return ScriptInfo(app_import_path=os.environ.get("FLASK_APP")).load_app()


def __getattr__(name: str) -> Any:
    """``app``: the extension of the application that FLASK_APP names; for ``windlass worker windlass.integrations.flask:app``."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = _load_web().extensions.get(EXTENSION)
    if found is None:
        raise ConfigError("FLASK_APP", os.environ.get("FLASK_APP"), "an application with Windlass(app)")
    return found
