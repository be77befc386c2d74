"""``windlass serve``: the REST API of an app, beside a worker or without one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from windlass.cli.database import app_option, url_option
from windlass.cli.exit_codes import ExitCode
from windlass.cli.serving_options import log_options, one_app, sign_in

if TYPE_CHECKING:
    from windlass.app.app import App


@click.command()
@click.argument("app", required=False)
@app_option
@url_option
@click.option("--host", metavar="HOST", help="The address to listen at. [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; 0 is any free one. [8080]")
@click.option("--no-auth", is_flag=True, help="Ask for no credentials; only on an address of this machine.")
@click.option("--worker/--no-worker", default=False, help="Whether this process serves jobs, too. [no]")
@log_options
def serve(
    app: str | None,
    target: str | None,
    url: str | None,
    host: str | None,
    port: int | None,
    no_auth: bool,
    worker: bool,
    style: str,
    level: str | None,
) -> int:
    """Serve the REST API of APP (module:attribute, here or after --app).

    Without APP the API shows and changes the jobs of the database, and submits none: it knows no kinds. SIGTERM or Ctrl-C lets running
    requests finish, and running jobs, if there is a worker; a second signal does not wait for them.
    """
    from windlass.errors import ConfigError

    named = one_app(app, target, "a server")
    given = {"host": host, "port": port, "no_auth": no_auth or None}
    changes = {f"api.{name}": value for name, value in given.items() if value is not None}
    loaded = _loaded(named, url, style, level, changes)
    if worker and not loaded.parts.registry.phases:
        raise ConfigError("app", named, "an app with jobs; without any, leave --worker out")
    try:
        return _serve(loaded, has_worker=worker)
    finally:
        loaded.close()


def _loaded(
    target: str | None, url: str | None, style: str, level: str | None, changes: Mapping[str, object]
) -> App:
    from windlass.app.app import App
    from windlass.cli.worker_logs import load_and_log
    from windlass.config import url_flags
    from windlass.observe import logs

    flags = {**url_flags(url), **changes}
    if target is not None:
        return load_and_log(target, style, level, lambda: "", flags=flags)
    loaded = App()
    loaded.parts.use_flags(flags)
    if style != "none":
        logs.configure(level or "info", "console" if style == "auto" else style).secrets.add_url(loaded.url)
    return loaded


def _serve(app: App, *, has_worker: bool) -> int:
    from windlass.api import ApiSettings, create_api
    from windlass.api.access.addresses import is_loopback
    from windlass.api.access.startup import require_authentication
    from windlass.api.middleware.hosts import LOOPBACK
    from windlass.api.server import ApiServer
    from windlass.cli.stop_signals import StopSignals
    from windlass.dashboard import with_dashboard

    settings = ApiSettings.of(app.config)
    is_local = is_loopback(settings.host)
    if is_local and not settings.hosts:  # else a page of another site could reach it by a name of its own
        settings = replace(settings, hosts=LOOPBACK)
    require_authentication(app, settings)
    web = create_api(app, settings=settings)
    app.store.now()  # opened, and the database responds
    engine = app.worker() if has_worker else None
    server = ApiServer(with_dashboard(web), host=settings.host, port=settings.port)
    signals, stopping = StopSignals(), threading.Event()
    signals.install()

    def listen() -> None:
        while signals.wait():
            if stopping.is_set():
                server.hurry()
                if engine is not None:
                    engine.hurry()
            stopping.set()

    threading.Thread(target=listen, name="windlass-signals", daemon=True).start()
    with ExitStack() as ends:
        if engine is not None:
            ends.callback(engine.stop)
            engine.start()
        ends.callback(server.close)
        server.start()
        click.echo(f"Windlass API: {server.url}", err=True)
        if is_local and not settings.no_auth:
            click.echo(sign_in(web.state.access.one_time_link(server.url)), err=True)
        while not stopping.wait(0.2) and not server.has_ended.is_set():
            pass
    return ExitCode.INTERRUPTED if signals.is_interrupted else ExitCode.DONE
