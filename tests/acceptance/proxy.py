"""A TCP proxy in front of PostgreSQL that loses replies, the way networks do.

    with PostgresProxy(dsn) as proxy, open_store(proxy.url) as store:
        proxy.cut_reply_to(commit)     # the next COMMIT reaches the server and takes effect; its reply is lost
        store.enqueue([...])

It understands just enough of the protocol to find the message whose reply is to be lost and to know that the server has
dealt with it (ReadyForQuery); then it closes both sides. Bytes are passed on unchanged.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict

from tests.servers.postgres import url_of
from tests.waiting import PATIENCE

Match = Callable[[bytes, bytes], bool]
"""Says whether a client's message (type, body) is the one whose reply gets lost. The body of an Execute is the text of
the statement that is executed."""

_REQUESTS = {80877103, 80877104}  # SSL, GSS: answered by one byte, then the start-up message follows


def commit(kind: bytes, body: bytes) -> bool:
    """The COMMIT of a transaction block."""
    return kind == b"Q" and body.upper().startswith(b"COMMIT")


def execution_of(marker: str) -> Match:
    """The execution of a prepared statement whose text holds ``marker``; in autocommit mode it commits by itself."""
    wanted = marker.encode()
    return lambda kind, body: kind == b"E" and wanted in body


class PostgresProxy:
    """Forwards to the server of ``dsn``; ``url`` names the same database through it."""

    def __init__(self, dsn: str) -> None:
        facts = conninfo_to_dict(dsn)
        self._target = (str(facts.get("host")), int(str(facts.get("port", 5432))))
        self._server = socket.create_server(("127.0.0.1", 0))
        facts |= {"host": "127.0.0.1", "port": str(self._server.getsockname()[1])}
        parts = {key: str(value) for key, value in facts.items() if value is not None}
        self.url = url_of(" ".join(f"{key}={value}" for key, value in parts.items()), parts["dbname"])
        self._lock = threading.Lock()
        self._match: Match | None = None
        self._skip = 0
        self.cuts = 0
        self._open: set[socket.socket] = set()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def cut_reply_to(self, match: Match, *, skip: int = 0) -> None:
        """Lose the reply to the next message that matches (after leaving out ``skip`` of them), once."""
        with self._lock:
            self._match, self._skip = match, skip

    def cut_all(self) -> None:
        """Close every connection now."""
        with self._lock:
            sockets = list(self._open)
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(PATIENCE)

    # --- how it is done --------------------------------------------------------------------------------------------

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            is_late = self._closed  # nobody would cut it any more
            self._open |= {client, server}
        try:
            if not is_late:
                self._forward(client, server)
        except OSError:
            pass  # one of them is gone: that is what this is for
        finally:
            with self._lock:
                self._open -= {client, server}
            client.close()
            server.close()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        asked, answered = _Messages(has_start=True), _Messages(has_start=False)
        is_cut = False
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not data:
                        return
                    if key.fileobj is client:
                        is_cut |= self._is_met(asked.feed(data))
                        if asked.is_started and not answered.is_started:
                            answered.is_started = True
                        server.sendall(data)
                        continue
                    # Before the start-up message the server answers single bytes, which are no messages.
                    kinds = [kind for kind, _ in answered.feed(data)] if answered.is_started else []
                    if not is_cut:
                        client.sendall(data)
                    elif b"Z" in kinds:
                        return

    def _is_met(self, messages: list[tuple[bytes, bytes]]) -> bool:
        with self._lock:
            for kind, body in messages:
                if self._match is None or not self._match(kind, body):
                    continue
                if self._skip:
                    self._skip -= 1
                    continue
                self._match = None
                self.cuts += 1
                return True
            return False


class _Messages:
    """Cuts one direction's bytes into messages, and remembers what a client prepared."""

    def __init__(self, *, has_start: bool) -> None:
        self._buffer = b""
        self._statements: dict[bytes, bytes] = {}
        self._bound = b""
        self._has_start = has_start
        self.is_started = False

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        self._buffer += data
        found: list[tuple[bytes, bytes]] = []
        while True:
            head = 0 if self._has_start and not self.is_started else 1
            if len(self._buffer) < head + 4:
                return found
            length = int.from_bytes(self._buffer[head : head + 4], "big")
            if len(self._buffer) < head + length:
                return found
            kind, body = self._buffer[:head], self._buffer[head + 4 : head + length]
            self._buffer = self._buffer[head + length :]
            if head:
                found.append((kind, self._text_of(kind, body)))
            elif int.from_bytes(body[:4], "big") not in _REQUESTS:
                self.is_started = True

    def _text_of(self, kind: bytes, body: bytes) -> bytes:
        """The message's body; for Execute the text of the statement bound before."""
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._statements[name] = text
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            self._bound = self._statements.get(name, b"")
        return self._bound if kind == b"E" else body
