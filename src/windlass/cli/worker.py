"""``windlass worker``: serve an app's jobs until it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.database import app_option, url_option
from windlass.cli.durations import Seconds
from windlass.cli.exit_codes import ExitCode
from windlass.cli.process_count import ProcessCount
from windlass.cli.serving_options import log_options, one_app

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.cli.exit_deadline import Caller
    from windlass.cli.worker_processes import Word
    from windlass.engine.engine import Engine
    from windlass.settings import Settings

CHECK_EVERY, LOG_EVERY = 1.0, 10.0
"""Seconds between two tries and two log lines while the worker waits for its database."""


@click.command()
@click.argument("app", required=False)
@app_option
@url_option
@click.option(
    "--processes",
    type=ProcessCount(),
    default=1,
    show_default=True,
    metavar="N|auto",
    help="Worker processes; auto: one for each core that the worker may use.",
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    metavar="NAME[=N]",
    help="Serve only this phase, kind, group or pattern such as 'report*' (repeatable), with N processors for each phase.",
)
@click.option("--drain", is_flag=True, help="End when no job is queued, running or due within a minute.")
@click.option(
    "--wait-for-database",
    "patience",
    type=Seconds(),
    default=0.0,
    metavar="SECONDS",
    help="How long to wait at the start for an unreachable database. [0: end with 69]",
)
@click.option("--parent", type=int, hidden=True)
@click.option(
    "--grace",
    type=Seconds(),
    metavar="SECONDS",
    help="Grace period for running jobs when the worker stops. [30]",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting of an instance, by its name or key: lease=60, retention.failed=90d.",
)
@log_options
@click.option("--metrics", metavar="[HOST:]PORT", help="Serve /metrics, /livez, /readyz and /healthz here.")
@click.pass_obj
def worker(
    caller: Caller | None,
    app: str | None,
    target: str | None,
    url: str | None,
    processes: int,
    phases: Sequence[str],
    drain: bool,
    patience: float,
    parent: int | None,
    grace: float | None,
    changes: Sequence[str],
    style: str,
    level: str | None,
    metrics: str | None,
) -> int:
    """Serve the jobs of APP (module:attribute, here or after --app).

    SIGTERM or Ctrl-C stops the worker gracefully: no new jobs start, running jobs have the grace period to finish, and the
    others go back to their queue. A second signal ends the grace period. No job is lost either way.
    """
    from windlass.cli.worker_logs import load_and_log
    from windlass.cli.worker_processes import Word, supervise
    from windlass.cli.worker_settings import worker_settings
    from windlass.config import url_flags
    from windlass.engine.tuning import tune_process

    app = _one_app(app, target)
    address = None if metrics is None else _address(metrics)
    served: list[Engine] = []
    loaded = load_and_log(app, style, level, lambda: served[0].id if served else "", flags=url_flags(url))
    _refuse_without_jobs(app, loaded)
    if parent is None:  # else the parent of all processes has said it
        _name_database(loaded)
    settings = worker_settings(loaded, phases, grace, changes)
    if processes > 1:
        try:
            _check(loaded, settings, patience)
        finally:
            loaded.close()
        arguments = _arguments(app, url, phases, drain, patience, grace, changes, style, level)
        return supervise(arguments, processes, address, grace=settings.grace)
    tune_process()
    _await_database(loaded, patience)
    engine = loaded.worker(settings)
    served.append(engine)
    try:
        return _serve(
            engine,
            loaded.store,
            drain,
            address,
            Word(parent),
            ends_process=caller is not None and caller.owns_process,
        )
    finally:
        loaded.close()


def _one_app(app: str | None, target: str | None) -> str:
    """The app to serve; refuses a command without one."""
    if (named := one_app(app, target, "a worker")) is None:
        raise click.UsageError("name the app to serve, for example windlass worker myproject.jobs:app")
    return named


def _name_database(app: App) -> None:
    """Log which database is served, and where its URL came from: the first line of a worker."""
    from windlass.observe import events
    from windlass.observe.emit import emit
    from windlass.urls import shown_url

    emit(events.STORE_CHOSEN, database=shown_url(app.url), origin=app.parts.own.url_origin)


def _refuse_without_jobs(target: str, app: App) -> None:
    """Refuse an app without jobs: its worker would seem healthy while jobs wait for ever."""
    if not app.parts.registry.phases:
        from windlass.errors import ConfigError

        module = target.partition(":")[0]
        raise ConfigError(
            "app",
            target,
            f"an app with jobs, and none are defined; {module} must import the modules that define them, or name one of those, "
            f"for example windlass worker {module}.jobs:app",
        )


def _check(app: App, settings: Settings, patience: float) -> None:
    """Make the checks of each process once, before any process is started."""
    from windlass.engine.served import resolved, served
    from windlass.urls import dialect_of

    dialect_of(app.url)
    app.parts.check_dependencies()
    served(app.parts.registry, resolved(app.parts.registry, settings))
    _await_database(app, patience)
    _ = app.store


def _await_database(app: App, patience: float) -> None:
    """Wait up to ``patience`` seconds for the database, with a log line every ten seconds; does nothing for 0."""
    from windlass.errors import StoreUnreachableError
    from windlass.observe import events
    from windlass.observe.emit import emit

    deadline, told_at = time.monotonic() + patience, 0.0
    while patience:
        try:
            _ = app.store
            return
        except StoreUnreachableError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            if time.monotonic() >= told_at:
                told_at = time.monotonic() + LOG_EVERY
                emit(events.STORE_AWAITED, left, seconds_left=round(left, 1), error=events.problem(error))
            time.sleep(min(CHECK_EVERY, left))


def _serve(
    engine: Engine,
    store: Any,
    drain: bool,
    address: tuple[str, int] | None,
    word: Word,
    *,
    ends_process: bool,
) -> int:
    from windlass.cli.exit_deadline import end_at_last, watch_exit
    from windlass.cli.stop_signals import StopSignals
    from windlass.engine.drain import Drain

    def code() -> ExitCode:
        return ExitCode.INTERRUPTED if signals.is_interrupted else ExitCode.DONE

    def begin_to_stop() -> None:
        stopping.set()
        if ends_process:
            end_at_last(code(), engine.settings.grace, hurried)

    def listen() -> None:  # a thread of its own: this one may wait for a log that is not read
        while signals.wait():
            if stopping.is_set():
                hurried.set()
                engine.hurry()
            else:
                begin_to_stop()

    def drained() -> None:  # an actor asked for it, from elsewhere; the engine has stopped
        word.drained()
        begin_to_stop()

    stopping, hurried = threading.Event(), threading.Event()
    signals = StopSignals()
    signals.install()
    threading.Thread(target=listen, name="windlass-signals", daemon=True).start()
    with ExitStack() as ends:
        if address is not None:  # before the start: an address in use must not cost a claim
            ends.callback(_open_door(engine, store, *address).close)
        ends.callback(engine.stop)
        engine.on_ready = word.serves
        engine.on_drained = drained
        engine.start()
        left = Drain(engine, store) if drain else None
        while not stopping.wait(0.2 if left else None):
            if left is not None and left.is_over():
                word.drained()
                begin_to_stop()
        grace_ends_at = time.monotonic() + engine.settings.grace
    if ends_process:  # from here on, since closing the app also runs the app's own code
        watch_exit(code(), grace_ends_at - time.monotonic(), hurried)
    return code()


def _open_door(engine: Engine, store: Any, host: str, port: int) -> Any:
    from windlass.observe import events
    from windlass.observe.emit import emit
    from windlass.observe.metrics import Metrics
    from windlass.observe.server import serve

    phases = store.phases
    made = Metrics(engine.stats.report, engine.report, counts=phases.counts, oldest=phases.oldest)
    door = serve(host, port, engine.report, made.render, counts=phases.counts, paused=phases.paused)
    emit(events.METRICS_LISTENING, url=f"http://{f'[{host}]' if ':' in host else host}:{door.port}")
    return door


def _address(text: str) -> tuple[str, int]:
    from windlass.errors import ConfigError

    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError("metrics", text, "PORT or HOST:PORT, for example 127.0.0.1:9100")
    if host.startswith("[") and host.endswith("]"):  # an IPv6 address, as in a URL
        host = host[1:-1]
    return host or "127.0.0.1", int(port)


def _arguments(
    app: str,
    url: str | None,
    phases: Sequence[str],
    drain: bool,
    patience: float,
    grace: float | None,
    changes: Sequence[str],
    style: str,
    level: str | None,
) -> list[str]:
    """The arguments of one of several worker processes."""
    made = [app, "--log", style, *(["--level", level] if level is not None else [])]
    if url is not None:
        made += ["--url", url]
    for item in phases:
        made += ["--phase", item]
    for item in changes:
        made += ["--set", item]
    if patience:
        made += ["--wait-for-database", str(patience)]
    if grace is not None:
        made += ["--grace", str(grace)]
    return [*made, "--drain"] if drain else made
