"""A Valkey (or Redis) of a test's own that can be killed, frozen and started again, and a proxy that loses replies."""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import redis

from tests.servers import valkey
from tests.waiting import PATIENCE, eventually
from windlass import processes as process


def patient(url: str) -> str:
    """The URL with time-outs that a busy machine does not exceed: with the half second of the library it is an outage. A server that was
    killed refuses connections at once."""
    return f"{url}?socket_timeout={PATIENCE:g}&socket_connect_timeout={PATIENCE:g}"


class OwnValkey:
    """One server on one port; everything is gone when it is killed, as nothing is kept on disk. ``hasty_url`` is for tests that freeze
    it: calls end after half a second."""

    def __init__(self, *options: str) -> None:
        self._program = valkey.own_program()
        self._options = options
        self._password = secrets.token_hex(8)
        self.port = process.free_port()
        self.hasty_url = f"redis://:{self._password}@127.0.0.1:{self.port}/0"
        self.url = patient(self.hasty_url)
        self._folder = process.ScratchFolder(process.Account())
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command: list[Any] = [self._program, "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--requirepass", self._password, "--save", "", "--appendonly", "no"]
        command += ["--dir", self._folder.path, "--logfile", "log", *self._options]
        self._process = process.start(command)
        eventually(self._is_up)

    def _is_up(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (
            self._folder.path / "log"
        ).read_text()
        with suppress(redis.RedisError), self.client() as client:
            client.ping()
            return True
        return False

    def kill(self) -> None:
        """As a power cut does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """It keeps its connections and reads nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def client(self) -> Any:
        """A client that is none of ours: what a look from outside finds."""
        return redis.Redis.from_url(self.url, decode_responses=True, protocol=2)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.kill()
        self._folder.remove()


class LostReply:
    """Passes everything on, and loses the reply to the first command that holds ``marker``: it takes effect, and nobody is told."""

    def __init__(self, target: OwnValkey, marker: bytes) -> None:
        self._target = target
        self._marker = marker
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = target.hasty_url.replace(f":{target.port}/", f":{self._server.getsockname()[1]}/")
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        is_deaf = False
        with (
            client,
            socket.create_connection(("127.0.0.1", self._target.port)) as server,
            selectors.DefaultSelector() as selector,
            suppress(OSError),
        ):
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data: bytes = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:
                        return
                    if key.fileobj is client:
                        if self._marker in data and not self.lost:
                            self.lost += 1
                            is_deaf = True
                        server.sendall(data)
                    elif not is_deaf:
                        client.sendall(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


def take(locks: Any, request_id: str) -> Any:
    """A lock that must be free."""
    held = locks.acquire(request_id)
    assert held, held
    return held
