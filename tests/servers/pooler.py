"""A small pooler before a real PostgreSQL server, for tests: each transaction (or each client) gets a session of the server.

It reads the protocol just enough to know where a transaction ends: ReadyForQuery with the status I. Clients are trusted, as the server trusts
the pooler.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import psycopg

SSL_REQUEST = 80877103
STARTUP = 196608
PARAMETERS = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
)


class Pooler:
    """Listens on a free port of 127.0.0.1. ``mode`` is transaction or session."""

    def __init__(self, dsn: str, mode: str) -> None:
        self._dsn = dsn
        self._parts = urlsplit(dsn)
        self._mode = mode
        self._idle: list[_Session] = []
        self._made: list[_Session] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        user = self._parts.username or "postgres"
        port = self._listener.getsockname()[1]
        return f"postgresql://{user}@127.0.0.1:{port}{self._parts.path}?sslmode=disable"

    def close(self) -> None:
        self._listener.close()
        for session in self._made:
            session.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _take(self) -> _Session:
        with self._lock:
            if self._idle:
                return self._idle.pop()  # the newest, as PgBouncer does
            self._made.append(_Session(self._dsn))
            return self._made[-1]

    def _serve(self, client: socket.socket) -> None:
        session: _Session | None = None
        with suppress(OSError, EOFError), client:
            while (version := struct.unpack("!I", _startup(client)[:4])[0]) == SSL_REQUEST:
                client.sendall(b"N")
            assert version == STARTUP
            session = self._take()
            own_key = b"K" + struct.pack("!III", 12, 4_000_000, 1)
            greeting = session.greeting + own_key + b"Z\0\0\0\5I"
            if self._mode == "transaction":
                self._give_back(session)
                session = None
            client.sendall(greeting)
            while (message := _message(client))[:1] != b"X":
                session = session or self._take()
                session.socket.sendall(message)
                if message[:1] in (b"Q", b"S"):
                    ready = session.reply(client)
                    if ready[-1:] == b"I" and self._mode == "transaction":
                        # Before the client knows: it may open another connection at once.
                        self._give_back(session)
                        session = None
                    client.sendall(ready)

    def _give_back(self, session: _Session) -> None:
        with self._lock:
            self._idle.append(session)


class _Session:
    """One session of the server: psycopg logs in, then the socket is used directly."""

    def __init__(self, dsn: str) -> None:
        self._login = psycopg.connect(dsn, autocommit=True, sslmode="disable", client_encoding="UTF8")
        self.socket = socket.socket(fileno=os.dup(self._login.fileno()))
        self.socket.setblocking(True)
        self.greeting = b"R" + struct.pack("!II", 8, 0)
        """What a client hears of the server: that it is let in, and the server's parameters."""
        for name in PARAMETERS:
            text = f"{name}\0{self._login.info.parameter_status(name) or ''}\0".encode()
            self.greeting += b"S" + struct.pack("!I", len(text) + 4) + text

    def close(self) -> None:
        self.socket.close()
        self._login.close()

    def reply(self, client: socket.socket) -> bytes:
        """Pass the server's messages on until it is ready; returns the one that says so and whether it is in a transaction."""
        while (message := _message(self.socket))[:1] != b"Z":
            client.sendall(message)
        return message


def _startup(client: socket.socket) -> bytes:
    return _exactly(client, struct.unpack("!I", _exactly(client, 4))[0] - 4)


def _message(sender: socket.socket) -> bytes:
    head = _exactly(sender, 5)
    return head + _exactly(sender, struct.unpack("!I", head[1:])[0] - 4)


def _exactly(sender: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := sender.recv(count - len(data))):
            raise EOFError
        data += more
    return data
