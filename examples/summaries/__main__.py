"""Run the example: two servers, each page requested from both at once, and the summaries counted."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from windlass_examples.running import chaos, command
from windlass_examples.running.command import say
from windlass_examples.running.database import chosen
from windlass_examples.running.processes import Processes, environment
from windlass_examples.summaries import jobs
from windlass_examples.web.servers import PATHS, Model, Pages, Server, serving

KILLS = 2
TRIES = 600


def main(arguments: list[str] | None = None) -> int:
    """Run the example; the exit code is 1 if a summary is missing or was written twice."""
    parser = command.parser("summaries", __doc__)
    parser.add_argument("--requests", type=int, help="how many pages (12, with --chaos 48)")
    parser.add_argument("--redis", metavar="URL", help="keep locks here; without it each server has its own")
    options = parser.parse_args(arguments)
    command.end_on_sigterm()
    count = options.requests or (48 if options.chaos else 12)
    folder: Path = options.folder.resolve()
    with ExitStack() as stack:
        url = stack.enter_context(chosen(options.postgres, folder / "summaries.db"))
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.port"):
            old.unlink()
        site, model = Server(Pages), Server(Model, per_second=50)
        stack.enter_context(serving(site, model))
        variables = {
            "EXAMPLES_ALLOWED_SITES": site.authority,
            "EXAMPLES_MODEL_URL": f"http://{model.authority}/v1",
            **({"WINDLASS_REDIS_URL": options.redis} if options.redis else {}),
        }
        env = environment(url, **variables)
        os.environ.update(env)
        if not options.redis:
            say("no --redis: each server keeps locks of its own; the database alone decides")
        began = time.monotonic()
        jobs.app.phases.counts()  # makes the tables of Windlass before two servers do
        jobs.create(url)
        mark = f"{time.time():.3f}"
        pages = [f"http://{site.authority}{PATHS[n % len(PATHS)]}?n={n}&run={mark}" for n in range(count)]
        servers = Processes(
            [sys.executable, "-m", "windlass_examples.summaries.server", str(folder)], env, folder
        )
        with servers, ThreadPoolExecutor(8) as clients:
            servers.start(options.workers)
            made = [clients.submit(post, folder, page) for page in pages for _ in range(2)]
            wanted = set(pages)

            def rows() -> list[dict[str, Any]]:
                return [row for row in jobs.read(url) if row["url"] in wanted]

            chaos.wait_for(
                lambda: len(rows()) >= count and all(future.done() for future in made),
                lambda: len(rows()) / count,
                servers,
                kills=KILLS if options.chaos else 0,
                say=say,
            )
            ids = {future.result()["request"] for future in made}
            found = rows()
        twice = sum(row["writes"] > 1 for row in found)
        facts = {
            "pages": count,
            "requests sent": 2 * count,
            "requests": len(ids),
            "summaries": len(found),
            "written twice": twice,
            "charged": len(model.charged),
            "servers killed": servers.killed,
            "requests interrupted": chaos.interrupted(jobs.app, ids),
            "seconds": f"{time.monotonic() - began:.1f}",
        }
        command.report(facts)
        jobs.app.close()
    return 0 if len(ids) == len(found) == count == len(model.charged) and not twice else 1


def post(folder: Path, page: str) -> dict[str, Any]:
    """Request a summary from any server that can be reached; a client of a killed server repeats its request."""
    body = json.dumps({"url": page}).encode()
    for _ in range(TRIES):
        ports = [path.read_text() for path in folder.glob("*.port")]
        try:
            port = random.choice(ports)
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/summaries", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
                found: dict[str, Any] = json.load(reply)
                return found
        except (OSError, IndexError, urllib.error.URLError):
            time.sleep(0.1)
    raise TimeoutError(f"no server took {page}")


if __name__ == "__main__":
    sys.exit(main())
