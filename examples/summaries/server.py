"""One server process of the example: on a free port, which it writes to a file of the folder."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import uvicorn

from windlass.observe import logs
from windlass_examples.running.worker import end_with_parent
from windlass_examples.summaries.service import create_service


def main(folder: Path) -> None:
    """Serve until SIGTERM."""
    end_with_parent()
    logs.configure(level="info", style="json")
    listening = socket.create_server(("127.0.0.1", 0))
    port = folder / f"{os.getpid()}.port"
    port.with_suffix(".new").write_text(str(listening.getsockname()[1]))
    port.with_suffix(".new").replace(port)
    settings = {"worker.lease": 4, "worker.heartbeat": 1, "worker.margin": 1, "worker.recovery": 1}
    config = uvicorn.Config(
        create_service({**settings, "background.lock_ttl_ms": 3_000}), log_config=None, access_log=False
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
