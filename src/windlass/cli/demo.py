"""``windlass demo``: worked examples at work on a real database, and a second form in which a worker is killed."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import click

from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show
from windlass.cli.serving_options import sign_in
from windlass.errors import ConfigError

if TYPE_CHECKING:
    from windlass.app.app import App

DEMONSTRATIONS = "windlass.demonstrations"
"""The group of entry points that names the demonstration. The library imports no example."""
DEMONSTRATED = "windlass.demonstrations.apps"
"""The group of entry points that names the apps of the demonstration: the dashboard has the kinds of all of them."""
API = "pip install 'windlass[api]'"


class Facts(Protocol):
    """The result of a demonstration."""

    @property
    def is_right(self) -> bool: ...

    @property
    def is_interrupted(self) -> bool: ...

    def table(self) -> Sequence[Mapping[str, Any]]: ...


@click.command()
@click.option("--once", is_flag=True, help="End when every user has submitted all jobs, and all have ended.")
@click.option(
    "--postgres", "on_postgres", is_flag=True, help="Use a private PostgreSQL that is removed afterwards."
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="windlass-demo.db",
    show_default=True,
    help="The SQLite file, beside a folder for logs and reports. Both are kept; a second start continues.",
)
@click.option("--port", type=click.IntRange(0, 65_535), help="The port of the dashboard. [any free one]")
@click.option(
    "--kill",
    "is_deadly",
    is_flag=True,
    help="Run the other demonstration: three workers, one of them killed.",
)
@click.option(
    "--jobs",
    type=click.IntRange(20, 100_000),
    show_default="200",
    help="With --kill: how many parcels.",
)
@output_option
def demo(
    once: bool,
    on_postgres: bool,
    file: Path,
    port: int | None,
    is_deadly: bool,
    jobs: int | None,
    output: str,
) -> int:
    """Run two worked examples on a real database, with simulated users.

    Web pages pass through three phases that measure their visibility: fetch and read the page, form questions, ask a model (the
    demonstration serves the pages and the model itself). Officials of six counties order exports of timesheets, which are written in chunks;
    when both exports of a county are complete, a rule creates their summary. The dashboard is at the printed address, and the printed
    link signs a browser in; without the extra "api" there is no dashboard. Ctrl-C stops gracefully, and the next start continues.

    With --kill, three worker processes pack and ship parcels, and one of them is killed. Each phase writes an entry in the
    transaction that advances the parcel; at the end the entries are counted.
    """
    if jobs is not None and not is_deadly:
        raise click.UsageError("--jobs is for the demonstration with --kill; the other has its own number")
    with ExitStack() as ends:
        if on_postgres:
            from windlass.examples.demo.postgres import private_postgres

            ends.enter_context(_tidy_on_sigterm())
            url = ends.enter_context(private_postgres())
        elif is_deadly:
            ends.enter_context(_tidy_on_sigterm())
            url = f"sqlite:///{file}"
        else:
            url = f"sqlite:///{quote(str(file.resolve()))}"
        if is_deadly:
            return _run_parcels(url, jobs or 200, output)
        folder = (
            Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="windlass-demo-")))
            if on_postgres
            else file.with_suffix("")
        )
        return _run(url, folder, output, port, is_endless=not once, is_kept=not on_postgres)


def _run(url: str, folder: Path, output: str, port: int | None, *, is_endless: bool, is_kept: bool) -> int:
    with _dashboard(url, port or 0):
        facts = _demonstration()(url, folder, is_endless=is_endless)
    if facts.is_interrupted:
        say(
            "stopped; the next start continues with the unfinished jobs"
            if is_kept
            else "stopped, and its database is removed"
        )
    show(facts.table(), ("what", "count"), output)
    if not facts.is_right:
        say("error: the results are not as expected; this is a bug in Windlass, please report it")
        return ExitCode.ENDED_BADLY
    return ExitCode.INTERRUPTED if facts.is_interrupted else ExitCode.DONE


class Demonstration(Protocol):
    """Runs a demonstration on a database, with a folder for its files."""

    def __call__(self, url: str, folder: Path, *, is_endless: bool) -> Facts: ...


def _demonstration() -> Demonstration:
    for found in entry_points(group=DEMONSTRATIONS):
        run: Demonstration = found.load()
        return run
    because = "this installation has no worked examples; install Windlass from its wheel or sdist"
    raise ConfigError("demonstration", None, because=because)


@contextmanager
def _dashboard(url: str, port: int) -> Iterator[None]:
    """Serve the dashboard on loopback, and print its address and a link that signs a browser in; without the extra, print how to add it."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        say(f"the dashboard needs an extra: {API}")
        yield
        return
    from windlass.api import ApiSettings, create_api
    from windlass.api.middleware.hosts import LOOPBACK
    from windlass.api.server import ApiServer
    from windlass.app.app import App
    from windlass.dashboard import with_dashboard

    with closing(App(url, config={"database.auto_migrate": True})) as app:
        _add_kinds(app)
        app.store.now()  # opened, and migrated, before anything asks for it
        web = create_api(app, settings=ApiSettings(hosts=LOOPBACK))
        with closing(ApiServer(with_dashboard(web), port=port)) as server:
            server.start()
            say(f"dashboard: {server.url}/")
            say(sign_in(web.state.access.one_time_link(server.url)))
            yield


def _add_kinds(app: App) -> None:
    """Give an app the kinds of the demonstration, so that the dashboard has their boards and can submit their jobs."""
    for found in entry_points(group=DEMONSTRATED):
        defined: App = found.load()
        for phase in defined.parts.registry.phases.values():
            app.parts.registry.adopt(phase)


def _run_parcels(url: str, jobs: int, output: str) -> int:
    from windlass.examples.demo.run import Demo

    facts = Demo(url, jobs).run()
    show(facts.rows(), ("what", "count"), output)
    if not facts.is_right:
        say("error: the entries do not match the jobs; this is a bug in Windlass, please report it")
        return ExitCode.ENDED_BADLY
    return ExitCode.DONE


@contextmanager
def _tidy_on_sigterm() -> Iterator[None]:
    """Make SIGTERM unwind like Ctrl-C, so that workers and server are stopped."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
