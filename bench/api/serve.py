"""``python -m bench.api.serve URL``: a process that serves the REST API of an app, or with ``--bare`` the least that can submit over HTTP.

The first line that it prints has its port. Then each line on its standard input gets a line with what it has used so far; it ends with its input.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from bench.limited import make
from windlass.api import ApiSettings, create_api
from windlass.api.server import ApiServer
from windlass.app.app import App
from windlass.dashboard import with_dashboard

STREAMS = 2_000


class Bare:
    """The ceiling of submits over HTTP from Python: reads the body, submits, writes the id. It checks nothing."""

    def __init__(self, app: App) -> None:
        self._noop = app.kind("noop")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        body, is_whole = b"", False
        while not is_whole:
            message = await receive()
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        job = await self._noop.enqueue_async(**json.loads(body)["arguments"])
        text = json.dumps({"id": job.id}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def facts(app: App, reads: Counter[str], web: Any) -> dict[str, Any]:
    """CPU seconds and memory of this process, the queries of each verb, and the open streams."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    streams = getattr(getattr(web, "state", None), "streams", ())
    return {
        "cpu": time.process_time(),
        "megabytes": pages * 4096 / 1e6,
        "reads": dict(reads),
        "streams": len(streams),
        "jobs": sum(one.queued for one in app.store.phases.counts().values()),
    }


def counted(app: App) -> Counter[str]:
    """Counts the queries of an app by their verbs, from now on."""
    reads: Counter[str] = Counter()
    read = app.store.db.read

    def count(verb: str, **given: Any) -> Any:
        reads[verb] += 1
        return read(verb, **given)

    app.store.db.read = count  # type: ignore[method-assign]
    return reads


@click.command()
@click.argument("url")
@click.option("--bare", is_flag=True, help="Without the API.")
@click.option("--dashboard", is_flag=True, help="With the dashboard, and without credentials.")
def main(url: str, bare: bool, dashboard: bool) -> None:
    """Serve until the standard input is closed."""
    app, _ = make(url, None, 1)
    reads = counted(app)
    settings = ApiSettings(streams=STREAMS, hosts=("127.0.0.1",), no_auth=dashboard)
    web: Any = Bare(app) if bare else create_api(app, settings=settings)
    with app, ApiServer(with_dashboard(web) if dashboard else web) as server:
        server.start()
        print(json.dumps({"port": server.port}), flush=True)
        for _ in sys.stdin:
            print(json.dumps(facts(app, reads, web)), flush=True)


if __name__ == "__main__":
    main()
