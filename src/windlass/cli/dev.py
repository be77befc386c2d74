"""``windlass dev``: a worker and the dashboard, which start again when the code changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli.database import app_option, url_option
from windlass.cli.durations import Seconds
from windlass.cli.exit_codes import ExitCode, say

if TYPE_CHECKING:
    from windlass.cli.reloaded import Program
    from windlass.cli.stop_signals import StopSignals
    from windlass.cli.watched_files import WatchedFiles

POLL_EVERY = 0.3
"""Seconds between two scans of the files."""
SECRET = "WINDLASS_API_SESSION_SECRET"  # noqa: S105  the name of a variable
PORT = 8080
"""The port of the dashboard, if it is free."""


@click.command()
@click.argument("app", required=False)
@app_option
@url_option
@click.option(
    "--phase", "phases", multiple=True, metavar="NAME[=N]", help="Serve only this phase (repeatable)."
)
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="A setting of the worker.")
@click.option(
    "--grace",
    type=Seconds(),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Grace period for running jobs at a restart.",
)
@click.option(
    "--watch",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Watch this folder instead of the current one (repeatable).",
)
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Lowest log level; debug shows every job.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help=f"The port of the dashboard. [{PORT}, or any free one if it is in use]",
)
@click.option("--no-dashboard", is_flag=True, help="Do not serve the dashboard.")
def dev(
    app: str | None,
    target: str | None,
    url: str | None,
    phases: Sequence[str],
    changes: Sequence[str],
    grace: float,
    folders: Sequence[Path],
    level: str,
    port: int | None,
    no_dashboard: bool,
) -> int:
    """Serve the jobs of APP (module:attribute, here or after --app) and the dashboard, and start again when a .py file or windlass.toml
    changes.

    The printed link signs a browser in; the session outlasts restarts. At a restart running jobs have the grace period to finish; the
    others go back to their queue. Code that does not compile leaves the running worker as it is. Ctrl-C ends the command.
    """
    from windlass.cli.reloaded import Program
    from windlass.cli.stop_signals import StopSignals
    from windlass.cli.watched_files import WatchedFiles

    if app is not None and target is not None and app != target:
        raise click.UsageError(f"two apps are named, {app} and --app {target}; dev serves one")
    if (named := app or target) is None:
        raise click.UsageError("name the app to serve, for example windlass dev myproject.jobs:app")
    database = ["--url", url] if url is not None else []
    arguments = ["worker", named, "--level", level, "--grace", str(grace), *database]
    for name, values in (("--phase", phases), ("--set", changes)):
        for value in values:
            arguments += [name, value]
    programs = [Program("worker", arguments, grace)]
    if not no_dashboard and _can_serve():
        serving = ["serve", named, "--log", "none", "--port", str(_free_port(port)), *database]
        programs.append(Program("dashboard", serving, grace, env=_sessions()))
    watched = list(folders) or [Path()]
    signals = StopSignals()
    signals.install()
    return Reloader(programs, WatchedFiles(watched), signals).run()


def _can_serve() -> bool:
    """Whether the extra of the API is installed; prints how to add it if not."""
    from importlib.util import find_spec

    from windlass.cli.demo import API

    if all(find_spec(name) for name in ("fastapi", "uvicorn")):
        return True
    say(f"dev: the dashboard needs an extra: {API}")
    return False


def _free_port(asked: int | None) -> int:
    """The port that the dashboard keeps through all restarts: the port that was asked for, else 8080, else any free one."""
    import socket

    for port in (asked,) if asked else (PORT, 0) if asked is None else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return asked or PORT  # the server says that it is in use


def _sessions() -> dict[str, str]:
    """The environment of the dashboard: with it a browser that is signed in stays so when the server starts again."""
    import os
    import secrets

    return {SECRET: os.environ.get(SECRET) or secrets.token_urlsafe(32)}


class Reloader:
    """Runs each program once at a time, and all of them again when files change; main thread only."""

    def __init__(self, programs: Sequence[Program], files: WatchedFiles, signals: StopSignals) -> None:
        self._programs = programs
        self._files = files
        self._signals = signals

    def run(self) -> int:
        """Run until a signal."""
        import time

        try:
            while not self._signals.is_stopping:
                for program in self._programs:
                    program.keep_running(time.monotonic())
                if self._signals.wait(POLL_EVERY):
                    break
                if changed := self._changed():
                    self._restart(changed)
            self._stop()
        finally:
            for program in self._programs:
                program.kill()
        return ExitCode.INTERRUPTED if self._signals.is_interrupted else ExitCode.DONE

    def _changed(self) -> list[str]:
        """The files that changed, once they have not been written to for a moment."""
        changed = set(self._files.changed())
        while changed and not self._signals.wait(POLL_EVERY / 3):
            if not (more := self._files.changed()):
                break
            changed.update(more)
        return sorted(changed)

    def _restart(self, changed: Sequence[str]) -> None:
        names = ", ".join(str(Path(name)) for name in changed[:3]) + (" …" if len(changed) > 3 else "")
        if problem := _problem(changed):
            say(f"dev: {names} changed and does not compile ({problem}); the worker stays as it is")
            return
        say(f"dev: {names} changed; the worker starts again")
        self._stop()
        for program in self._programs:
            program.start_at = 0.0

    def _stop(self) -> None:
        """Stop all programs gracefully; a signal meanwhile ends their grace period."""
        for program in self._programs:
            program.ask_to_stop()
        hurried = False
        while any(program.is_stopping() for program in self._programs):
            if self._signals.wait(0.05) and not hurried:
                hurried = True
                for program in self._programs:
                    program.hurry()
        for program in self._programs:
            program.kill()


def _problem(changed: Sequence[str]) -> str | None:
    """Why one of these files cannot be compiled."""
    for name in changed:
        path = Path(name)
        if path.suffix != ".py" or not path.is_file():
            continue
        try:
            compile(path.read_bytes(), name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            return f"{type(error).__name__}: {getattr(error, 'msg', error)}" + (
                f", line {line}" if line else ""
            )
    return None
