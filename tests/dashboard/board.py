"""A dashboard as people use it: a real server, a real worker, a database of SQLite, and API tokens to sign in with."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.dashboard.board_app import make_app
from tests.waiting import PATIENCE, eventually
from windlass.api import ApiSettings, create_api
from windlass.dashboard import with_dashboard
from windlass.processes import free_port

BASE = "/ops/board"
"""The dashboard of the tests is mounted under a path, as behind a proxy of a larger application."""
SECRET = "the sessions of browsers survive a restart of the server"
SETTINGS = ApiSettings(session_secret=SECRET, read_timeout=PATIENCE)
"""A read that a busy machine makes slow is no error, which a page would show."""
ROLES = {
    "viewer": ("view",),
    "operator": ("view", "view-payload", "submit", "operate", "edit"),
    "admin": ("admin",),
}


class Board:
    """The server can be stopped and started again at the same address; the worker goes on meanwhile."""

    def __init__(self, folder: Path, url: str) -> None:
        self.mended = folder / "mended"
        self.app = make_app(url, self.mended)
        self.tokens = {name: self.app.tokens.create(name, roles).text for name, roles in ROLES.items()}
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.start()
        self.worker = self.app.worker()
        self.worker.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{BASE}"

    def start(self) -> None:
        """Serve; at the same port as before."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port = self._port or free_port()  # which nobody takes while the server is stopped
        listening.bind(("127.0.0.1", self._port))
        web = Starlette(
            routes=[
                Mount(
                    BASE,
                    app=with_dashboard(create_api(self.app, settings=SETTINGS)),
                )
            ]
        )
        config = uvicorn.Config(web, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        eventually(lambda: self._server is not None and self._server.started, "the server did not start")

    def stop(self) -> None:
        """Stop the server; pages stay open."""
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._thread.join(PATIENCE)

    def close(self) -> None:
        self.stop()
        self.worker.stop()
        self.app.close()
