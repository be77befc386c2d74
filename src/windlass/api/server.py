"""Serves the API with uvicorn on a thread of its own, beside a worker or without one."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import uvicorn

from windlass.closing import Closing
from windlass.errors import ConfigError
from windlass.observe.logger import get_logger

log = get_logger("windlass.api")
GRACE = 10
"""Seconds that requests have to end when the server stops."""
STUCK = 30.0
"""Seconds after which a connection is ended whose client takes nothing of what it was sent (on Linux). Without a limit it would stay for as long
as the client likes: a response that was given up still has its last bytes to send."""


class ApiServer(Closing):
    """An ASGI application that is served on a thread of this process; port 0 is any free one. Streams end when the server stops."""

    def __init__(self, web: Any, *, host: str = "127.0.0.1", port: int = 0) -> None:
        config = uvicorn.Config(
            web,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE,
            lifespan="on",
        )
        self.host, self.port = host, port
        self._web = web
        self.stuck = STUCK
        self._server = _Server(config, self)
        self.listens, self.has_ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-api", daemon=True)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def start(self) -> None:
        """Listen; ``ConfigError`` if this process may not listen there, or if the address is in use."""
        self._thread.start()
        self.listens.wait()
        if not self._server.started:
            where = f"{self.host}:{self.port}"
            raise ConfigError(
                "api.port", where, "an address that is free, and that this process may listen on"
            )

    def stop(self) -> None:
        """Accept no more requests, let running ones finish for some seconds, and end."""
        self._server.should_exit = True
        streams = getattr(self._web.state, "streams", None) if hasattr(self._web, "state") else None
        if streams is not None:
            streams.end()

    def hurry(self) -> None:
        """Wait for no request any longer."""
        self._server.force_exit = True

    def close(self) -> None:
        """Stop, and wait for the end."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(GRACE + 5)

    def _run(self) -> None:
        try:
            self._server.run()
        except SystemExit:  # uvicorn ends a process that cannot listen
            log.debug("the server could not listen at %s", self.url)
        except BaseException:
            log.exception("the server ended with an error")
        finally:
            self.has_ended.set()
            self.listens.set()


class _Server(uvicorn.Server):
    """A server that says where it listens."""

    def __init__(self, config: uvicorn.Config, owner: ApiServer) -> None:
        super().__init__(config)
        self._owner = owner

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            for listener in self.servers[0].sockets:
                _limit(listener.fileno(), self._owner.stuck)
            self._owner.host, self._owner.port = self.servers[0].sockets[0].getsockname()[:2]
            self._owner.listens.set()


def _limit(listener: int, seconds: float) -> None:
    """Have the kernel end connections of a listener whose client takes nothing for so many seconds."""
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        with socket.socket(fileno=os.dup(listener)) as own:
            own.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
